package node

import (
	"testing"
	"unsafe"

	"github.com/zlnode/zlnode/mailbox"
)

func TestASmallSendTakesTwoCacheLines(t *testing.T) {
	const line = 64
	var s mailbox.Slot[message]
	if n := unsafe.Sizeof(s); n != 4*line {
		t.Errorf("a message's place in a queue has %d bytes, want whole cache lines, %d", n, 4*line)
	}
	if n := unsafe.Offsetof(s.V) + unsafe.Offsetof(s.V.inline); n != line {
		t.Errorf("a message's content begins at %d of its place, want %d", n, line)
	}
	if inlineBytes < line {
		t.Errorf("%d bytes of content lie in the place, want %d", inlineBytes, line)
	}
}
