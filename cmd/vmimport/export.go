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

	"vmop/diskimage"
	"vmop/diskimage/transfer"
	"vmop/internal/cli"
)

// exporter sends a disk to clients that connect to a socket, any number of times. It ends when no client has been
// connected for a while.
//
// See docs/decisions/0142-exports-of-disks.md and 0158-files-through-pages.md.
type exporter struct {
	disk, termination string
	door              door
	length            int64         // bytes; 0 means all
	idle, stall       time.Duration // maximum time without a client; maximum time in which a client reads no data
	log               *slog.Logger

	mu      sync.Mutex
	clients int
	alone   *time.Timer // ends the exporter when it fires
}

func newExport(log *cli.LogFlags) *cobra.Command {
	var e exporter
	cmd := &cobra.Command{
		Use:   "export DISK",
		Short: "Send a disk to vmimport fetch, or to the manager",
		Long: "Send a disk, a file or a block device with raw bytes, to vmimport fetch at a socket, and\n" +
			"with --tls to the manager at a port. The program ends when no client has been connected\n" +
			"for --idle.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError{Err: fmt.Errorf("takes DISK; got %d arguments", len(args))}
			}
			e.disk = args[0]
			var err error
			if e.log, err = loggerOf(log); err != nil {
				return err
			}
			r := &reporter{log: e.log, termination: e.termination}
			return r.reportExport(cmd.OutOrStdout(), e.runExport(cmd.Context()))
		},
	}
	p := cmd.Flags()
	e.door.addFlags(p)
	p.Int64Var(&e.length, "length", 0, "`BYTES` of DISK to send (default all)")
	p.DurationVar(&e.idle, "idle", 2*time.Minute, "`DURATION` to wait for a client before ending")
	p.DurationVar(&e.stall, "stall", 2*time.Minute, "`DURATION` to wait for a client that accepts no data")
	p.StringVar(&e.termination, "termination-log", "", "`FILE` for the outcome, the same as on standard output")
	return cmd
}

// openDisk returns the disk and the number of bytes to send.
func (e *exporter) openDisk(ctx context.Context) (*os.File, int64, error) {
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

func (e *exporter) runExport(ctx context.Context) error {
	disk, size, err := e.openDisk(ctx)
	if err != nil {
		return err
	}
	defer disk.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	listeners, err := e.door.listenUntil(ctx, e.log)
	if err != nil {
		return fmt.Errorf("wait for who fetches the disk: %w", err)
	}
	e.alone = time.AfterFunc(e.idle, end)
	e.log.Info("the disk can be fetched", "disk", e.disk, "size", size)
	var sending sync.WaitGroup
	defer sending.Wait()
	broken := make(chan error, len(listeners))
	for _, l := range listeners {
		sending.Go(func() { broken <- e.acceptClients(ctx, l, &sending, size) })
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-broken:
		if ctx.Err() != nil {
			return nil
		}
		end() // stop the other listener
		return fmt.Errorf("wait for who fetches the disk: %w", err)
	}
}

// acceptClients sends the disk to clients until the listener is closed.
func (e *exporter) acceptClients(ctx context.Context, l net.Listener, sending *sync.WaitGroup, size int64) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		e.countClients(1)
		sending.Go(func() {
			defer e.countClients(-1)
			if err := e.sendDisk(ctx, conn, size); err != nil {
				e.log.Warn("the disk was not fetched to its end", "err", err)
			}
		})
	}
}

// countClients adds more to the number of clients.
func (e *exporter) countClients(more int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.clients += more; e.clients == 0 {
		e.alone.Reset(e.idle)
	} else {
		e.alone.Stop()
	}
}

// sendDisk sends the disk to a client. Each client has a separate open file, because sending moves the file offset.
func (e *exporter) sendDisk(ctx context.Context, conn net.Conn, size int64) error {
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

// patient is a connection that fails if the peer reads no data for too long.
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

// reportExport reports the outcome of an export. The client knows whether it has received the whole disk.
func (r *reporter) reportExport(out io.Writer, err error) error {
	if err == nil {
		return r.publishOutcome(out, outcome{Reason: "Exported", Message: "no one fetches the disk any more"})
	}
	return errors.Join(r.publishOutcome(out, importOutcome(diskimage.Result{}, err)), reported{err})
}

func newFetch() *cobra.Command {
	var socket string
	var r transfer.Request
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Print what vmimport export sends",
		Long: "Connect to vmimport export, and print its compressed output, which kubectl vmop disk\n" +
			"export writes to a file.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fetchDisk(cmd.Context(), cmp.Or(socket, defaultSocket), r, cmd.OutOrStdout())
		},
	}
	p := cmd.Flags()
	p.Int64Var(&r.From, "from", 0, "number of `BYTES` to skip because they already exist")
	p.StringVar(&socket, "socket", defaultSocket, "`PATH` of the Unix socket")
	return cmd
}

// Limits for waiting until the socket exists, because fetch may start before export.
const (
	fetchPatience = 10 * time.Second
	fetchPause    = 100 * time.Millisecond
)

func fetchDisk(ctx context.Context, path string, r transfer.Request, out io.Writer) error {
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
