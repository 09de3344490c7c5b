# Intel Data Center GPU Max (Ponte Vecchio) on Intel's out-of-tree i915 (backports):
# the only i915 that shows more than one copy engine.
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
compute_engines = 4
