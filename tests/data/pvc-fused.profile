# Synthetic: Ponte Vecchio with three copy engines fused off and logical ids that are not in the
# order of instances, so that who takes one for the other fails.
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
copy_engines    = 6
copy_logical    = 0 3 1 4 2 5
compute_engines = 4
