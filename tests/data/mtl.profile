# Intel Meteor Lake on upstream i915: integrated, but the CPU's caches are not the GPU's.
device_id             = 0x7d55
revision              = 0x8
generation            = mtl
rules                 = upstream
submission            = guc
llc                   = no
smem                  = 32G
gtt_bits              = 48
timestamp_hz          = 19200000
topology              = 1 8 16
render_engines        = 1
copy_engines          = 1
compute_engines       = 1
video_engines         = 2
video_enhance_engines = 1
