# Synthetic: upstream rules and execlists submission (no barriers) with 9 copy engines; no upstream
# part has more than one.
device_id       = 0x56a0
revision        = 0x8
generation      = gen125
rules           = upstream
submission      = execlists
llc             = no
lmem            = 16G
smem            = 32G
gtt_bits        = 48
timestamp_hz    = 19200000
topology        = 1 32 16
render_engines  = 1
copy_engines    = 9
