package qmp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
)

func TestWhatAPeerMaySendWithoutEndingTheSession(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an empty line":                "\r\n",
		"a message in pieces":          `{"event": "STOP"` + "}",
		"a return without a command":   `{"return": {"status": "wrong"}, "id": 99}`,
		"a return without id":          `{"return": {"status": "wrong"}}`,
		"a return with a strange id":   `{"return": {"status": "wrong"}, "id": {"a": "2"}}`,
		"a return with the id as text": `{"return": {"status": "wrong"}, "id": "2"}`,
		"a negative id":                `{"return": {"status": "wrong"}, "id": -2}`,
		"an error without id":          `{"error": {"class": "GenericError", "desc": "JSON parse error"}}`,
		"a second greeting":            greeting,
		"a message of no known kind":   `{"surprise": 1}`,
		"text that is not UTF-8":       "{\"event\": \"STOP\", \"data\": {\"a\": \"\xff\xfe\"}}",
		"null":                         "null",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newReadyPeer(t)
			status := s.Start(qmp.Command{Execute: "query-status"})
			id := p.hear().ID
			require.EqualValues(t, 2, id)
			for i := range len(text) { // one byte at a time
				p.write(text[i : i+1])
			}
			p.say("")
			p.say(`{"return": {"status": "right"}, "id": 2}`)
			reply, err := status.Wait(timeout(t))
			require.NoError(t, err)
			require.JSONEq(t, `{"status": "right"}`, string(reply))
		})
	}
}

func TestWhatEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, because string }{
		"garbage":             {"HTTP/1.1 400 Bad Request\r\n", `message "HTTP/1.1 400 Bad Request\r\n" is not QMP`},
		"an array":            {"[1]\n", "is not QMP"},
		"two messages in one": {`{"return": {}, "id": 2}{"return": {}, "id": 2}` + "\n", "is not QMP"},
		"a NUL":               {"\x00\n", "is not QMP"},
		"an error of no form": {`{"error": 7, "id": 2}` + "\n", "is not QMP"},
		"bottomless nesting":  {strings.Repeat("[", 20_000) + "\n", "is not QMP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := newReadyPeer(t)
			status := s.Start(qmp.Command{Execute: "query-status"})
			p.hear()
			p.write(c.text)
			require.ErrorContains(t, closed(t, s), c.because)
			_, err := status.Wait(timeout(t))
			require.ErrorIs(t, err, qmp.ErrClosed)
		})
	}
}

func TestAConnectionThatEndsInsideAMessage(t *testing.T) {
	t.Parallel()
	p, s := newReadyPeer(t)
	p.write(`{"return": {}`)
	require.NoError(t, p.conn.Close())
	require.ErrorContains(t, closed(t, s), "QEMU's last message is incomplete")
}

func TestA64MBLine(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	send := func(p *peer) {
		block := strings.Repeat("x", 1<<20)
		fmt.Fprint(p.conn, `{"id": 2, "return": "`)
		for range size / len(block) {
			if _, err := fmt.Fprint(p.conn, block); err != nil {
				return // refused
			}
		}
		fmt.Fprint(p.conn, "\"}\r\n")
	}
	t.Run("is too large", func(t *testing.T) {
		t.Parallel()
		p, s := newReadyPeer(t)
		go send(p)
		require.ErrorIs(t, closed(t, s), qmp.ErrTooLarge)
	})
	t.Run("unless it is allowed", func(t *testing.T) {
		t.Parallel()
		p, s := newReadyPeer(t, qmp.WithMaxMessage(size+100))
		large := s.Start(qmp.Command{Execute: "query-qmp-schema"})
		p.hear()
		go send(p)
		reply, err := large.Wait(timeout(t))
		require.NoError(t, err)
		require.Len(t, reply, size+2)
	})
}

func TestRefusedCapabilitiesEndTheSession(t *testing.T) {
	t.Parallel()
	p, s := newPeer(t)
	p.say(greeting)
	p.hear()
	p.say(`{"error": {"class": "GenericError", "desc": "not today"}, "id": 1}`)
	require.ErrorContains(t, s.Ready(timeout(t)), "QMP qmp_capabilities: not today")
	require.ErrorContains(t, closed(t, s), "negotiate capabilities: not today")
}

func TestAPeerThatNeverGreets(t *testing.T) {
	t.Parallel()
	_, s := newPeer(t)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Ready(short), context.DeadlineExceeded)
	require.Zero(t, s.Version())
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice does no harm")
	closed(t, s)
}

func TestALateReplyIsNotTheNextCommands(t *testing.T) {
	t.Parallel()
	p, s := newReadyPeer(t)
	impatient, cancel := context.WithCancel(t.Context())
	go func() {
		p.hear()
		cancel()
	}()
	_, err := s.Run(impatient, qmp.Command{Execute: "query-status"})
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "not sent")

	next := s.Start(qmp.Command{Execute: "query-name"})
	require.EqualValues(t, 3, p.hear().ID)
	p.say(`{"return": {"late": true}, "id": 2}`)
	p.say(`{"return": {"name": "vm"}, "id": 3}`)
	reply, err := next.Wait(timeout(t))
	require.NoError(t, err)
	require.JSONEq(t, `{"name": "vm"}`, string(reply))
}

func TestRepliesMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	p, s := newReadyPeer(t)
	first, second := s.Start(qmp.Command{Execute: "a"}), s.Start(qmp.Command{Execute: "b"})
	require.Equal(t, "a", p.hear().Execute)
	require.Equal(t, "b", p.hear().Execute)
	p.say(`{"return": "B", "id": 3}`)
	p.say(`{"return": null, "id": 2}`)
	reply, err := first.Wait(timeout(t))
	require.NoError(t, err)
	require.Equal(t, "null", string(reply))
	reply, err = second.Wait(timeout(t))
	require.NoError(t, err)
	require.Equal(t, `"B"`, string(reply))
}

func TestACommandThatWasNotSentNeverWillBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe() // without a buffer: data is sent only when it is read
		defer theirs.Close()
		s := qmp.New(ours)
		defer s.Close()
		synctest.Wait() // qmp_capabilities is being written
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Run(ctx, qmp.Command{Execute: "system_powerdown"})
		require.EqualError(t, err, "QMP system_powerdown: no reply: context deadline exceeded (not sent)")

		later := s.Start(qmp.Command{Execute: "query-status"})
		dec := json.NewDecoder(theirs)
		for _, name := range []string{"qmp_capabilities", "query-status"} {
			var h heard
			require.NoError(t, dec.Decode(&h))
			require.Equal(t, name, h.Execute)
		}
		require.NoError(t, theirs.Close())
		_, err = later.Wait(t.Context())
		require.ErrorIs(t, err, qmp.ErrClosed)
	})
}

func TestArgumentsThatAreNotJSON(t *testing.T) {
	t.Parallel()
	_, s := newReadyPeer(t)
	for _, arguments := range []any{make(chan int), json.RawMessage("{"), json.RawMessage("\"\xff\"")} {
		_, err := s.Run(timeout(t), qmp.Command{Execute: "cont", Arguments: arguments})
		require.ErrorContains(t, err, "QMP cont: encode the arguments: json: ")
	}
	require.NoError(t, s.Err())
}

func TestClosingEndsCommandsAndForgetsEvents(t *testing.T) {
	t.Parallel()
	p, s := newReadyPeer(t)
	status := s.Start(qmp.Command{Execute: "query-status"})
	p.hear()
	p.say(`{"event": "STOP"}`)
	require.NoError(t, s.Close())
	_, err := status.Wait(timeout(t))
	require.ErrorIs(t, err, qmp.ErrClosed)
	for range s.Events() {
		// the channel is closed, with or without the event that was on its way.
	}
}

func TestAFloodOfEventsDoesNotPushOutTheRareOne(t *testing.T) {
	t.Parallel()
	p, s := newReadyPeer(t, qmp.WithMaxEvents(8))
	p.say(`{"event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-shutdown"}, "timestamp": {"seconds": -1, "microseconds": -1}}`)
	for i := range 1000 {
		p.say(fmt.Sprintf(`{"event": "RTC_CHANGE", "data": {"offset": %d}}`, i))
	}
	fence := s.Start(qmp.Command{Execute: "query-status"})
	p.hear()
	p.say(`{"return": {}, "id": 2}`)
	_, err := fence.Wait(timeout(t))
	require.NoError(t, err)
	require.NoError(t, p.conn.Close())
	closed(t, s)

	var names []string
	var last qmp.Event
	for last = range s.Events() {
		names = append(names, last.Name)
	}
	require.Contains(t, names, "SHUTDOWN")
	require.JSONEq(t, `{"offset": 999}`, string(last.Data), "the newest is kept")
	require.Zero(t, last.Time)
	require.EqualValues(t, 1001-len(names), s.Dropped())
}

// A function can receive a reply instead of a waiting caller, and a command can be withdrawn before it is sent.
func TestRepliesAreHandedOver(t *testing.T) {
	t.Parallel()
	p, s := newReadyPeer(t)
	<-s.Greeted()
	replies := make(chan string, 4)
	then := func(reply json.RawMessage, err error) { replies <- fmt.Sprint(string(reply), " ", err) }
	_, err := s.Call(qmp.Command{Execute: "query-status"}, then)
	require.NoError(t, err)
	p.hear()
	p.say(`{"return": {"status": "running"}, "id": 2}`)
	require.Equal(t, `{"status": "running"} <nil>`, <-replies)
	sent, err := s.Call(qmp.Command{Execute: "stop"}, then)
	require.NoError(t, err)
	p.hear()
	require.False(t, sent.Withdraw(), "it was sent")
	require.NoError(t, s.Close())
	require.Equal(t, " QMP stop: "+qmp.ErrClosed.Error(), <-replies)
	_, err = s.Call(qmp.Command{Execute: "cont"}, then)
	require.ErrorIs(t, err, qmp.ErrClosed)
	require.Empty(t, replies, "nothing is handed over besides the error")

	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	s = qmp.New(ours)
	_, err = theirs.Read(make([]byte, 1)) // the session waits until everything is read
	require.NoError(t, err)
	held, err := s.Call(qmp.Command{Execute: "cont"}, then)
	require.NoError(t, err)
	require.True(t, held.Withdraw())
	require.NoError(t, s.Close())
	require.Empty(t, replies)
}

// A file is sent with its command, and only with this command.
func TestAFileIsSentWithItsCommand(t *testing.T) {
	t.Parallel()
	p, s := newReadyPeer(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	s.Start(qmp.Command{Execute: "first"})
	s.Start(qmp.Command{Execute: "getfd", File: w})
	s.Start(qmp.Command{Execute: "last"})
	var said, with string
	for !strings.Contains(said, "last") {
		text, rights := make([]byte, 1024), make([]byte, 64)
		n, got, _, _, err := p.conn.(*net.UnixConn).ReadMsgUnix(text, rights)
		require.NoError(t, err)
		said += string(text[:n])
		if got > 0 {
			messages, err := syscall.ParseSocketControlMessage(rights[:got])
			require.NoError(t, err)
			files, err := syscall.ParseUnixRights(&messages[0])
			require.NoError(t, err)
			with += string(text[:n])
			require.NoError(t, w.Close())
			require.NoError(t, os.NewFile(uintptr(files[0]), "handed over").Close())
		}
	}
	require.Contains(t, with, "getfd")
	require.NotContains(t, with, "last")
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "it was the pipe's end")
}
