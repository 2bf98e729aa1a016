package zlnode_test

import (
	"encoding/binary"

	"github.com/pierrec/lz4/v4"

	"github.com/zlnode/zlnode/session"
)

// bomb is a request whose payload of that many bytes is compressed as far as the format goes.
func bomb(seq uint64, name string, size int) session.Packet {
	block := make([]byte, lz4.CompressBlockBound(size))
	n, err := lz4.CompressBlock(make([]byte, size), block, nil)
	if err != nil || n == 0 {
		panic("zeros do not compress")
	}
	p := request(seq, name, "")
	p.Compressed, p.Payload = true, binary.LittleEndian.AppendUint32([]byte{0xC0}, uint32(size-n))
	p.Payload = append(p.Payload, block[:n]...)
	return p
}
