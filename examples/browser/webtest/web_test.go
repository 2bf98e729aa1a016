package webtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for something to show on the page.
const patience = 30 * time.Second

// server is the example as a process, which a test may end and start again.
type server struct {
	t          *testing.T
	binary     string
	page, game string // addresses; the same ones after a start anew
	process    *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, binary: filepath.Join(t.TempDir(), "browser"), page: "127.0.0.1:0", game: "127.0.0.1:0"}
	build := exec.Command("go", "build", "-o", s.binary, ".")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.start()
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	return s
}

// start returns when the page can be asked for.
func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(s.binary, "-page", s.page, "-game", s.game)
	s.process.Stderr = os.Stderr
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.process.StdoutPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server said nothing: %v", err)
	}
	page, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		s.t.Fatal(err)
	}
	s.page = page.Host
	r, err := http.Get("http://" + s.page + "/server.json")
	if err != nil {
		s.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer r.Body.Close()
	var where struct{ URL string }
	if err := json.NewDecoder(r.Body).Decode(&where); err != nil {
		s.t.Fatal(err)
	}
	game, err := url.Parse(where.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	s.game = game.Host
}

// end sends the signal and waits for the end of the process.
func (s *server) end(how syscall.Signal) {
	s.t.Helper()
	if s.process.ProcessState != nil {
		return
	}
	_ = s.process.Process.Signal(how)
	if err := s.process.Wait(); err != nil && how != syscall.SIGKILL {
		s.t.Errorf("the server ended with %v", err)
	}
}

// browser is a tab of a Chromium of the test's own.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath("chromium"),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless,
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
	)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		defer cancel()
		last, stop := context.WithTimeout(ctx, patience)
		defer stop()
		if err := chromedp.Cancel(last); err != nil {
			t.Errorf("the browser does not close: %v", err)
		}
	})
	var thrown struct {
		sync.Mutex
		by []string
	}
	if err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			thrown.Lock()
			defer thrown.Unlock()
			text := e.ExceptionDetails.Text
			if x := e.ExceptionDetails.Exception; x != nil {
				text += " " + x.Description
			}
			thrown.by = append(thrown.by, text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		thrown.Lock()
		defer thrown.Unlock()
		for _, e := range thrown.by {
			t.Errorf("the page threw %s", e)
		}
	})
	return &browser{t: t, ctx: ctx}
}

func (b *browser) do(what string, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, action); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.text())
	}
}

func (b *browser) open(s *server) {
	b.t.Helper()
	b.do("open the page", chromedp.Navigate("http://"+s.page+"/"))
}

// text is what the page shows.
func (b *browser) text() string {
	text, err := evaluate[string](b, `document.body.innerText`)
	if err != nil {
		return fmt.Sprintf("the page does not tell what it shows: %v", err)
	}
	return text
}

// evaluate runs a script in the page, and waits for its promise if it is one.
func evaluate[T any](b *browser, script string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// until waits for a condition of the page.
func (b *browser) until(what, script string) {
	b.t.Helper()
	b.do(what, chromedp.Poll[chromedp.Void](script,
		chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(patience-time.Second)))
}

// sees waits until the element shows text that contains what.
func (b *browser) sees(element, what string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s does not show %q", element, what),
		fmt.Sprintf(`document.querySelector(%q).textContent.includes(%q)`, element, what))
}

func (b *browser) click(element string) {
	b.t.Helper()
	b.do("click "+element, chromedp.Click(chromedp.CSS(element)))
}

const east = `button[data-dx="1"]`

func TestThePagePlaysOverAWebSocket(t *testing.T) {
	s, b := newServer(t), newBrowser(t)
	b.open(s)
	b.sees("#state", "playing")
	b.sees("#answer", `login: {"x":5,"y":5}`)

	b.click(east)
	b.sees("#answer", `move: {"x":6,"y":5}`)
	b.sees("#push", `moved {"x":6,"y":5,"steps":1}`)
	for x := 7; x <= 10; x++ {
		b.click(east)
		b.sees("#answer", fmt.Sprintf(`move: {"x":%d,"y":5}`, x))
	}
	b.click(east)
	b.sees("#answer", "move failed: rejected: a player goes one field, on the board")

	// With no input of the player heartbeats keep the connection for longer than the
	// 5 s after which either side would give a silent one up.
	b.until("8 s are not over", `performance.now() > 8000`)
	if text := b.text(); strings.Contains(text, "disconnected") {
		t.Errorf("the connection was lost:\n%s", text)
	}

	// The application closes the Session and says why: the page stays away until it is
	// loaded anew, and finds its player.
	b.click("#leave")
	b.sees("#reason", "serverDrain: kicked: you asked for it")
	b.sees("#state", "ended")
	b.open(s)
	b.sees("#state", "playing")
	b.sees("#answer", `login: {"x":10,"y":5}`)

	// The node restarts in order, and says so; then it is killed, and does not.
	for how, reason := range map[syscall.Signal]string{syscall.SIGTERM: "serverDrain", syscall.SIGKILL: "the connection failed"} {
		s.end(how)
		b.sees("#reason", reason)
		s.start()
		b.sees("#state", "playing")
		b.sees("#answer", `login: {"x":5,"y":5}`)
		b.click(east)
		b.sees("#push", `moved {"x":6,"y":5,"steps":1}`)
	}
}

// Two tabs of one player would else take its place from each other for ever.
func TestAPageWhosePlaceIsTakenStaysAway(t *testing.T) {
	s, b := newServer(t), newBrowser(t)
	b.open(s)
	b.sees("#state", "playing")
	// A frame of the same origin has the same session storage, and so the same name.
	b.do("open the page in itself", chromedp.Evaluate[chromedp.Void](`document.body.append(
		Object.assign(document.createElement("iframe"), { src: location.href, id: "other" })), undefined`))
	b.sees("#reason", "serverDrain: replaced: another session has taken the place of this one")
	b.sees("#state", "ended")
	b.until("the other one does not play",
		`document.getElementById("other").contentDocument.getElementById("state")?.textContent === "playing"`)
}

// checkVectors is run in the page, with the vectors of both files. It returns what is
// wrong, one line each.
const checkVectors = `(async (valid, invalid) => {
	const { decode, encode, inflate, FrameError } = await import("./stream.js");
	const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (h) => parseInt(h, 16));
	const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
	const wrong = [];
	for (const v of valid) {
		try {
			const p = decode(bytes(v.hex));
			if (p.kind !== v.header.kind || p.codec !== v.header.codec || p.name !== (v.header.name ?? "") ||
				String(p.seq) !== String(v.header.request_seq)) wrong.push(v.note + ": the header");
			if (hex(encode(p)) !== v.hex) wrong.push(v.note + ": encoded again");
			if (hex(inflate(p, 65536)) !== (v.payload_plain_hex ?? v.payload_hex)) wrong.push(v.note + ": the payload");
		} catch (e) {
			wrong.push(v.note + ": " + e);
		}
	}
	for (const v of invalid) {
		try {
			inflate(decode(bytes(v.hex)), 65536);
			wrong.push(v.why + ": accepted");
		} catch (e) {
			if (!(e instanceof FrameError)) wrong.push(v.why + ": " + e);
		}
	}
	return wrong;
})`

func TestTheScriptReadsAndWritesFramesAsForeignClientsDo(t *testing.T) {
	frames := func(file string) string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join("../../../session/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Frames []json.RawMessage }
		if err := json.Unmarshal(raw, &doc); err != nil || len(doc.Frames) < 10 {
			t.Fatalf("%d frames, %v", len(doc.Frames), err)
		}
		all, err := json.Marshal(doc.Frames)
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
	s, b := newServer(t), newBrowser(t)
	b.open(s)
	wrong, err := evaluate[[]string](b, fmt.Sprintf("%s(%s, %s)", checkVectors, frames("valid.json"), frames("invalid.json")))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range wrong {
		t.Error(line)
	}
}
