package engine

import "github.com/zlnode/zlnode/internal/buf"

func (c *Conn) SendParts(head *buf.Buf, body [][]byte, done func(written bool)) error {
	b := head.Bytes()
	for _, v := range body {
		b = append(b[:len(b):len(b)], v...)
	}
	head.Free()
	if err := c.Send(buf.Copy(b)); err != nil {
		return err
	}
	go done(true)
	return nil
}
