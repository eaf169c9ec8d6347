package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"vmop/internal/cli"
	"vmop/manager/access/login"
	"vmop/runner/config"
)

// Requests at the socket. Each request and each answer is one line.
const (
	askLink  = "link"
	askToken = "token"
	refusal  = "cannot " // start of a refusal
)

// doorPatience is how long a request at the socket may take.
const doorPatience = 10 * time.Second

// newLocalLink and newLocalToken return the commands that query the process of vmmanager local.
func newLocalLink(f *localFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "link",
		Short: "Print a link to log in to the pages of vmmanager local",
		Long: "Print a link to the running vmmanager local. The link works once, within 10 minutes, for\n" +
			"a browser on this computer. As root, link also finds the service vmmanager-local.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return f.printAnswer(cmd, askLink) },
	}
}

func newLocalToken(f *localFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "token",
		Short: "Print a token for programs that use the pages of vmmanager local",
		Long: "Print a token for the JSON API of the running vmmanager local. Send it in the header\n" +
			"Authorization: Bearer TOKEN. It is valid for 12 hours.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return f.printAnswer(cmd, askToken) },
	}
}

// printAnswer prints the answer of this user's process or, if that is not running, of the service.
func (f *localFlags) printAnswer(cmd *cobra.Command, what string) error {
	place, err := localPlaceOf(config.HostEnv(), f.folder)
	if err != nil {
		return err
	}
	answer, err := askAt(cmd.Context(), place, what)
	if f.folder == "" && isAbsent(err) {
		answer, err = askAt(cmd.Context(), systemPlace, what)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return errors.New("cannot ask for a " + what + ": the pages of this user are not served, and the service " +
			"vmmanager-local is root's; run: vmmanager local, or: sudo vmmanager local " + what)
	case isAbsent(err):
		return errors.New("cannot ask for a " + what + ": the pages are not served; run: vmmanager local")
	case err != nil:
		return fmt.Errorf("cannot ask for a %s: %w", what, err)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), answer)
	return err
}

// isAbsent reports whether an error means that the pages of a place are not being served.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// askAt sends a request to the process of a place.
func askAt(ctx context.Context, place localPlace, what string) (string, error) {
	dialer := net.Dialer{Timeout: doorPatience}
	conn, err := dialer.DialContext(ctx, "unix", place.linkSocket())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(doorPatience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, what); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	answer = strings.TrimSpace(answer)
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(answer, refusal):
		return "", errors.New(answer)
	}
	return answer, nil
}

// door answers users of this computer who ask for links and tokens.
//
// See docs/decisions/0170-links-on-request.md.
type door struct {
	listener net.Listener
	owner    uint32 // the user who may ask, in addition to root
	answer   func(what string) (string, error)
	log      *slog.Logger
}

// newDoor listens at the socket of a place that this process has reserved.
func newDoor(
	ctx context.Context, place localPlace, answer func(string) (string, error), log *slog.Logger,
) (*door, error) {
	if err := os.Remove(place.linkSocket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot listen for vmmanager local link: %w", err)
	}
	var c net.ListenConfig
	listener, err := c.Listen(ctx, "unix", place.linkSocket())
	if err == nil {
		err = os.Chmod(place.linkSocket(), 0o600) // until then, the mode of the folder protects the socket
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen for vmmanager local link: %w", err)
	}
	return &door{listener, uint32(os.Geteuid()), answer, log}, nil
}

// runDoor answers requests until ctx is done.
func (d *door) runDoor(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = d.listener.Close() })()
	for {
		conn, err := d.listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("listen for vmmanager local link: %w", err)
		}
		go d.serveRequest(conn)
	}
}

// serveRequest answers one request.
func (d *door) serveRequest(conn net.Conn) {
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(doorPatience)) != nil {
		return
	}
	text, err := d.replyTo(conn)
	if err != nil {
		d.log.Warn("refused at the socket for links", "err", err)
		text = refusal + "answer: " + err.Error()
	}
	_, _ = fmt.Fprintln(conn, text) // the other end may have gone
}

// replyTo returns the answer to the request on a connection.
func (d *door) replyTo(conn net.Conn) (string, error) {
	const longest = 16
	line, err := bufio.NewReader(io.LimitReader(conn, longest)).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the request: %w", err)
	}
	uid, err := peerUser(conn)
	if err != nil {
		return "", err
	}
	if uid != 0 && uid != d.owner {
		return "", fmt.Errorf("user %d is neither root nor the user of the pages", uid)
	}
	return d.answer(strings.TrimSpace(line))
}

// peerUser returns the user of the peer process (SO_PEERCRED of unix(7)).
func peerUser(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T has no user", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("credentials of the peer: %w", err)
	}
	return who.Uid, nil
}

// linkAnswers returns the function that answers the requests for pages at a host.
func linkAnswers(host string, visitors *login.Service) func(what string) (string, error) {
	return func(what string) (string, error) {
		switch what {
		case askLink:
			return linkTo(host, visitors), nil
		case askToken:
			return visitors.NewToken()
		}
		return "", fmt.Errorf("%q is neither %s nor %s", what, askLink, askToken)
	}
}

// linkTo returns a log-in link.
func linkTo(host string, visitors *login.Service) string {
	return "http://" + host + "/link/" + visitors.NewLink()
}
