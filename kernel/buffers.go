package kernel

import "sync"

// maxPiece is how many bytes of text one record has at most.
const maxPiece = 64 << 10

// buffers hold what is on its way, so that an idle kernel has none.
var (
	buffers = sync.Pool{New: func() any { return []byte(nil) }}
	blocks  = sync.Pool{New: func() any { return new([maxPiece]byte) }}
)

// takeBuffer is an empty buffer of some capacity. Its user gives it to recycleBuffer.
func takeBuffer() []byte { return buffers.Get().([]byte) }

// recycleBuffer keeps a buffer for another user, unless it has become large.
func recycleBuffer(b []byte) {
	if cap(b) > 0 && cap(b) <= 4*maxPiece {
		//lint:ignore SA6002 the header that this allocates is small against the bytes that it keeps
		buffers.Put(b[:0])
	}
}

// takeBlock is a block of memory to read into. Its user gives it to recycleBlock.
func takeBlock() *[maxPiece]byte { return blocks.Get().(*[maxPiece]byte) }

// recycleBlock keeps a block for another user.
func recycleBlock(b *[maxPiece]byte) { blocks.Put(b) }
