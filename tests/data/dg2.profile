# Intel Arc A770 (DG2) on upstream i915: one copy engine, no MEM_COPY.
device_id       = 0x56a0
revision        = 0x8
generation      = gen125
rules           = upstream
submission      = guc
llc             = no
lmem            = 16G
smem            = 32G
gtt_bits        = 48
timestamp_hz    = 19200000
topology        = 1 32 16
render_engines  = 1
copy_engines    = 1
compute_engines = 1
video_engines   = 2
video_enhance_engines = 2
