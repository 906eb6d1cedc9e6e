package record

import "sync"

// MaxText is the most bytes of text that one record has.
const MaxText = 64 << 10

// The buffers hold data in transit, so that an idle kernel has none.
var (
	buffers = sync.Pool{New: func() any { return []byte(nil) }}
	blocks  = sync.Pool{New: func() any { return new([MaxText]byte) }}
)

// TakeBuffer returns an empty buffer with some capacity. The caller gives it to [RecycleBuffer].
func TakeBuffer() []byte { return buffers.Get().([]byte) }

// RecycleBuffer keeps a buffer for another caller, unless it has become large.
func RecycleBuffer(b []byte) {
	if cap(b) > 0 && cap(b) <= 4*MaxText {
		//lint:ignore SA6002 the header that this allocates is small against the bytes that it keeps
		buffers.Put(b[:0])
	}
}

// TakeBlock returns a block of memory to read into. The caller gives it to [RecycleBlock].
func TakeBlock() *[MaxText]byte { return blocks.Get().(*[MaxText]byte) }

// RecycleBlock keeps a block for another caller.
func RecycleBlock(b *[MaxText]byte) { blocks.Put(b) }
