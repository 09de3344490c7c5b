# Synthetic: Ponte Vecchio whose copy engines have rates of their own under the rate model.
device_id       = 0x0bd5
revision        = 0x2f
generation      = pvc
rules           = backports
submission      = guc
llc             = no
lmem            = 64G
smem            = 64G
gtt_bits        = 57
timestamp_hz    = 19200000
topology        = 1 64 8
copy_engines    = 9
copy_rates      = 200 100 100 100 100 50 50 50 50
compute_engines = 4
