package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/diskimage"
	"vmop/diskimage/transfer"
)

// An exporter sends a disk to those who connect to a socket, as often as they want, and ends when none has been
// there for a while.
//
// See docs/decisions/0142-exports-of-disks.md and 0158-files-through-pages.md.
type exporter struct {
	disk, termination string
	door              door
	length            int64         // bytes; 0 is all
	idle, stall       time.Duration // without a client; for which a client takes nothing
	log               *slog.Logger

	mu      sync.Mutex
	clients int
	alone   *time.Timer // ends the exporter
}

func newExport(log *cli.LogFlags) *cobra.Command {
	var e exporter
	cmd := &cobra.Command{
		Use:   "export DISK",
		Short: "Send a disk to vmimport fetch, or to the manager",
		Long: "export waits at a socket for vmimport fetch, and with --tls at a port for the\n" +
			"manager, and sends them a disk, a file or a block device with raw bytes. It ends\n" +
			"when no one has fetched for a while.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError{Err: fmt.Errorf("want DISK, got %d arguments", len(args))}
			}
			e.disk = args[0]
			var err error
			if e.log, err = loggerOf(log); err != nil {
				return err
			}
			r := &reporter{log: e.log, termination: e.termination}
			return r.exported(cmd.OutOrStdout(), e.run(cmd.Context()))
		},
	}
	p := cmd.Flags()
	e.door.add(p)
	p.Int64Var(&e.length, "length", 0, "`bytes` of DISK that are sent; default all")
	p.DurationVar(&e.idle, "idle", 2*time.Minute, "how long it waits for a client")
	p.DurationVar(&e.stall, "stall", 2*time.Minute, "how long a client may take nothing")
	p.StringVar(&e.termination, "termination-log", "", "`file` for the outcome, as in the standard output")
	return cmd
}

// open returns the disk and how many bytes of it are sent.
func (e *exporter) open(ctx context.Context) (*os.File, int64, error) {
	stream, err := diskimage.File{Path: e.disk, Length: e.length}.Open(ctx, diskimage.Network{})
	if err != nil {
		return nil, 0, err
	}
	size := stream.Total
	if err := stream.Close(); err != nil {
		return nil, 0, err
	}
	file, err := os.Open(e.disk)
	return file, size, err
}

func (e *exporter) run(ctx context.Context) error {
	disk, size, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer disk.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	listeners, err := e.door.listen(ctx, e.log)
	if err != nil {
		return fmt.Errorf("wait for who fetches the disk: %w", err)
	}
	e.alone = time.AfterFunc(e.idle, end)
	e.log.Info("the disk can be fetched", "disk", e.disk, "size", size)
	var sending sync.WaitGroup
	defer sending.Wait()
	broken := make(chan error, len(listeners))
	for _, l := range listeners {
		sending.Go(func() { broken <- e.accept(ctx, l, &sending, size) })
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-broken:
		if ctx.Err() != nil {
			return nil
		}
		end() // the other one
		return fmt.Errorf("wait for who fetches the disk: %w", err)
	}
}

// accept sends the disk to those who connect, until the listener is closed.
func (e *exporter) accept(ctx context.Context, l net.Listener, sending *sync.WaitGroup, size int64) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		e.count(1)
		sending.Go(func() {
			defer e.count(-1)
			if err := e.send(ctx, conn, size); err != nil {
				e.log.Warn("the disk was not fetched to its end", "err", err)
			}
		})
	}
}

// count counts the clients.
func (e *exporter) count(more int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.clients += more; e.clients == 0 {
		e.alone.Reset(e.idle)
	} else {
		e.alone.Stop()
	}
}

// send sends the disk to a client. Each has a file of its own, as the place in it is moved.
func (e *exporter) send(ctx context.Context, conn net.Conn, size int64) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetReadDeadline(time.Now().Add(transfer.LineTime)); err != nil {
		return err
	}
	line, err := bufio.NewReaderSize(conn, transfer.MostLine).ReadSlice('\n')
	var r transfer.Request
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		return fmt.Errorf("read from where the disk is wanted: %w", err)
	}
	disk, err := os.Open(e.disk)
	if err != nil {
		return err
	}
	defer disk.Close()
	e.log.Info("the disk is fetched", "from", r.From)
	return diskimage.Transmit(ctx, patient{conn, e.stall}, disk, r.From, size)
}

// patient is a connection whose other end has to take something within a time.
type patient struct {
	net.Conn

	stall time.Duration
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(p.stall)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// exported reports how an export has ended; whoever has fetched the disk knows more.
func (r *reporter) exported(out io.Writer, err error) error {
	if err == nil {
		return r.publish(out, outcome{Reason: "Exported", Message: "no one fetches the disk any more"})
	}
	return errors.Join(r.publish(out, outcomeOf(diskimage.Result{}, err)), reported{err})
}

func newFetch() *cobra.Command {
	var socket string
	var r transfer.Request
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Print what vmimport export sends",
		Long: "fetch connects to vmimport export, and prints what that sends: it is compressed,\n" +
			"and kubectl vmop disk export makes a file of it.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fetch(cmd.Context(), cmp.Or(socket, defaultSocket), r, cmd.OutOrStdout())
		},
	}
	p := cmd.Flags()
	p.Int64Var(&r.From, "from", 0, "`bytes` of the disk that are there already")
	p.StringVar(&socket, "socket", defaultSocket, "`path` of the socket")
	return cmd
}

// Whoever fetches may come before the socket is there.
const (
	fetchPatience = 10 * time.Second
	fetchPause    = 100 * time.Millisecond
)

func fetch(ctx context.Context, path string, r transfer.Request, out io.Writer) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	for end := time.Now().Add(fetchPatience); err != nil && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(fetchPause)
		conn, err = dialer.DialContext(ctx, "unix", path)
	}
	if err != nil {
		return fmt.Errorf("no disk can be fetched: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return err
	}
	_, err = io.Copy(out, conn)
	return err
}
