# dg2 for IGT: a kernel built with a short heartbeat, so that hangs are over soon.
device_id       = 0x56a0
revision        = 0x8
generation      = gen125
rules           = upstream
submission      = guc
llc             = no
lmem            = 0x3fa000000
smem            = 32G
gtt_bits        = 48
timestamp_hz    = 19200000
render_engines  = 1
copy_engines    = 1
compute_engines = 1
heartbeat_ms    = 150
