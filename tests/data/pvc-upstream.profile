# Synthetic: Ponte Vecchio on upstream rules, which no kernel offers; Intel's driver takes the way of
# upstream kernels where it finds no backports.
device_id       = 0x0bd5
revision        = 0x2f
generation      = pvc
rules           = upstream
submission      = guc
llc             = no
lmem            = 64G
smem            = 64G
gtt_bits        = 57
timestamp_hz    = 19200000
topology        = 1 64 8
copy_engines    = 9
compute_engines = 4
