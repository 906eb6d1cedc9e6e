package record

import "sync"

// MaxText is how many bytes of text one record has at most.
const MaxText = 64 << 10

// buffers hold what is on its way, so that an idle kernel has none.
var (
	buffers = sync.Pool{New: func() any { return []byte(nil) }}
	blocks  = sync.Pool{New: func() any { return new([MaxText]byte) }}
)

// TakeBuffer is an empty buffer of some capacity. Its user gives it to [RecycleBuffer].
func TakeBuffer() []byte { return buffers.Get().([]byte) }

// RecycleBuffer keeps a buffer for another user, unless it has become large.
func RecycleBuffer(b []byte) {
	if cap(b) > 0 && cap(b) <= 4*MaxText {
		//lint:ignore SA6002 the header that this allocates is small against the bytes that it keeps
		buffers.Put(b[:0])
	}
}

// TakeBlock is a block of memory to read into. Its user gives it to [RecycleBlock].
func TakeBlock() *[MaxText]byte { return blocks.Get().(*[MaxText]byte) }

// RecycleBlock keeps a block for another user.
func RecycleBlock(b *[MaxText]byte) { blocks.Put(b) }
