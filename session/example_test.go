package session_test

import (
	"fmt"

	"github.com/zlnode/zlnode/session"
)

func Example() {
	meta, err := session.NewMetadata(map[string]string{"trace": "abc"})
	if err != nil {
		fmt.Println(err)
		return
	}
	frame, err := session.Append(nil, &session.Packet{
		Kind:    session.KindRequest,
		Codec:   session.CodecJSON,
		Seq:     1,
		Name:    []byte("move"),
		Meta:    meta,
		Payload: []byte(`{"x":1}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// A receiver with a cap of 64 KiB takes it apart again.
	if size, err := session.FrameSize(frame[:session.PrefixSize], 64<<10); err != nil || size != len(frame) {
		fmt.Println("not yet a frame:", err)
		return
	}
	p, err := session.Decode(frame)
	if err != nil {
		fmt.Println(err)
		return
	}
	trace, _ := p.Meta.Lookup("trace")
	fmt.Printf("%v %d %s, trace %s: %s\n", p.Kind, p.Seq, p.Name, trace, p.Payload)
	// Output: Request 1 move, trace abc: {"x":1}
}
