package engine

// post is a function that waits to run on a connection's loop. Posts form a
// stack, newest first, which the loop takes whole and turns round.
type post struct {
	f     func(*Conn)
	below *post
	depth int // posts from here down
}

// postsClosed on top of the stack says that no post will run any more.
var postsClosed = &post{}

// Post runs f on the connection's loop, after the functions posted before, and
// before OnClose. Functions run also while the connection is closing. ErrFull:
// 1,024 wait already. ErrClosed: the connection is closed; f will not run. Safe
// for concurrent use; it never blocks.
func (c *Conn) Post(f func(c *Conn)) error {
	p := &post{f: f}
	for {
		top := c.posts.Load()
		switch {
		case top == postsClosed:
			return ErrClosed
		case top == nil:
			p.below, p.depth = nil, 1
		case top.depth >= postsMax:
			return ErrFull
		default:
			p.below, p.depth = top, top.depth+1
		}
		if c.posts.CompareAndSwap(top, p) {
			c.wantService()
			return nil
		}
	}
}

// runPosts runs what was posted so far, oldest first; end is the new stack. What
// the functions post runs in the next turn. Loop only.
func (c *Conn) runPosts(end *post) {
	if c.posts.Load() == end {
		return
	}
	var oldest *post
	for p := c.posts.Swap(end); p != nil; {
		below := p.below
		p.below, oldest = oldest, p
		p = below
	}
	for p := oldest; p != nil; p = p.below {
		p.f(c)
	}
}
