# Intel Tiger Lake GT2 on upstream i915: integrated, shared last level cache, execlists submission.
device_id             = 0x9a49
revision              = 0x1
generation            = gen12
rules                 = upstream
submission            = execlists
smem                  = 32G
gtt_bits              = 48
timestamp_hz          = 19200000
topology              = 1 6 16
render_engines        = 1
copy_engines          = 1
video_engines         = 2
video_enhance_engines = 1
