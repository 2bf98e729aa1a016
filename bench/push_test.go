package bench

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// pushesEach is how many pushes one turn makes in BenchmarkPush.
const pushesEach = 32

// BenchmarkPush is an Actor's pushes to a client that reads, here and over a link. The
// client asks for a turn's worth of them at a time, so that it is never behind.
func BenchmarkPush(b *testing.B) {
	for _, size := range []int{64, 1024} {
		for servers, where := range []string{"here", "there"} {
			b.Run(fmt.Sprintf("%s/%dB", where, size), func(b *testing.B) {
				node, _ := startApp(b, embeddedStore(b), servers, pusherApp(size))
				c := dial(b, node.SessionAddrs()[0].String(), 1)[0]
				if _, err := c.Write(requestFrame(b, "login", session.CodecJSON, []byte(`"pusher"`))); err != nil {
					b.Fatal(err)
				}
				readFrame(b, c)
				ask := requestFrame(b, "push", session.CodecRaw, nil)
				in, r := make([]byte, 4096), bufio.NewReaderSize(c, 64<<10)
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += pushesEach {
					if _, err := c.Write(ask); err != nil {
						b.Fatal(err)
					}
					for answered := false; !answered; {
						if _, err := io.ReadFull(r, in[:session.PrefixSize]); err != nil {
							b.Fatal(err)
						}
						rest := in[session.PrefixSize : session.PrefixSize+int(binary.BigEndian.Uint16(in))+int(binary.BigEndian.Uint32(in[2:]))]
						if _, err := io.ReadFull(r, rest); err != nil {
							b.Fatal(err)
						}
						answered = rest[1] == byte(session.KindResponse)
					}
				}
			})
		}
	}
}

// pusherApp has an Actor that answers a request with pushes of that size before its reply.
func pusherApp(size int) *zlnode.App {
	app := zlnode.NewApp()
	payload := make([]byte, size)
	actor := zlnode.DefineActor(app, "pusher", func(*zlnode.ActorContext) (*echo, error) { return &echo{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequestRaw(actor, "push", func(c *zlnode.ActorCall, _ *echo, _ []byte) ([]byte, error) {
		for range pushesEach {
			if err := c.PushRaw("pushed", payload); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	client := zlnode.DefineSession(app, "client", func(*zlnode.SessionContext) (*echo, error) { return &echo{}, nil })
	zlnode.OnPacketRequest(client, "login", func(c *zlnode.SessionCall, _ *echo, id string) (bool, error) {
		r, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: id, Type: "pusher"})
		if err != nil {
			return false, err
		}
		return true, c.Bind(r.Ref)
	})
	zlnode.Relay(client, "push", "pusher")
	return app
}
