package chunker_test

import (
	"fmt"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/clock"
)

// A move of 5,000 bytes in two pieces, in chunks of 2 KiB of which two may be in flight.
func Example() {
	pieces := [][]byte{make([]byte, 1000), make([]byte, 4000)}
	out := chunker.NewOutgoing(pieces, 2<<10, chunker.None)
	in, err := chunker.NewIncoming(out.Manifest(), chunker.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Free()

	pacer := chunker.NewPacer[string](4<<10, new(chunker.Budget))
	pacer.Add("player-42", out)
	for !out.Done() {
		for {
			move, i, ok := pacer.Next(clock.Now())
			if !ok {
				break
			}
			views, crc := out.AppendChunk(nil, i)
			pacer.Written()
			var record []byte // what a link would carry
			for _, v := range views {
				record = append(record, v...)
			}
			fmt.Println(move, "chunk", i, "of", len(record), "bytes from", len(views), "pieces")
			if _, err := in.Add(i, crc, record); err != nil {
				fmt.Println(err)
				return
			}
		}
		fmt.Println("the target has", in.Received())
		pacer.Acked(clock.Now(), out, in.Received())
	}
	state, err := in.Payload()
	fmt.Println(len(state), err)
	// Output:
	// player-42 chunk 0 of 2048 bytes from 2 pieces
	// player-42 chunk 1 of 2048 bytes from 1 pieces
	// the target has 2
	// player-42 chunk 2 of 904 bytes from 1 pieces
	// the target has 3
	// 5000 <nil>
}
