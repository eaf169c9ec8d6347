package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"vmop/diskimage/transfer"
	"vmop/runner/config"
	"vmop/runner/control/remote"
)

// door is the place where clients send or fetch data: a socket for clients that may execute programs in the pod,
// and a port for the manager.
type door struct {
	socket string
	tls    string // folder; "": no port
	port   uint16
}

func (d *door) addFlags(p *pflag.FlagSet) {
	p.StringVar(&d.socket, "socket", defaultSocket, "`PATH` of the Unix socket")
	p.StringVar(&d.tls, "tls", "", "`DIR` with "+transfer.CertificateFile+", "+transfer.KeyFile+" and the manager's "+
		config.AuthoritiesFile+";\nthe manager may then connect to --port (default no port)")
	p.Uint16Var(&d.port, "port", transfer.Port, "`PORT` for the manager, with --tls")
}

// listenUntil starts to listen, until ctx is done.
func (d *door) listenUntil(ctx context.Context, log *slog.Logger) (all []net.Listener, err error) {
	if err := os.Remove(d.socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a killed process
		return nil, err
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "unix", d.socket)
	if err != nil {
		return nil, err
	}
	all = append(all, l)
	if d.tls != "" {
		pair, err := tls.LoadX509KeyPair(
			filepath.Join(d.tls, transfer.CertificateFile), filepath.Join(d.tls, transfer.KeyFile))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read the certificate for the manager: %w", err), l.Close())
		}
		port, err := remote.Listen(ctx, remote.Options{
			Authorities: filepath.Join(d.tls, config.AuthoritiesFile), Port: int(d.port), Certificate: &pair, Log: log,
		})
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		log.Info("listening for the manager", "port", port.Port())
		all = append(all, port)
	}
	for _, l := range all {
		context.AfterFunc(ctx, func() { _ = l.Close() })
	}
	return all, nil
}
