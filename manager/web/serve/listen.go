package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"vmop/internal/keepalive"
)

const (
	// patience is the time limit for receiving a request and sending an answer. Streams have their own limits.
	patience = time.Minute
	// headerPatience is the time limit for receiving the header.
	headerPatience = 10 * time.Second
	// keepAlive is how long an idle connection stays open.
	keepAlive = 2 * time.Minute
	// endPatience is the time limit for open requests during a shutdown.
	endPatience = 5 * time.Second
	// largestHeader is the maximum size of a request header in bytes.
	largestHeader = 64 << 10
	// retryInterval is the delay between two attempts to listen.
	retryInterval = 2 * time.Second
)

// serveAgain serves with the current configuration, and restarts after changes and errors, until ctx is done.
func (p *Pages) serveAgain(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.serveAs(ctx, *p.config.Load())
		if err == nil {
			continue
		}
		p.setFault(err)
		select {
		case <-ctx.Done():
		case <-p.changed:
		case <-time.After(retryInterval):
		}
	}
}

// serveAs serves until the port or certificate folder in the configuration changes, or ctx is done.
func (p *Pages) serveAs(ctx context.Context, c Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var secured *tls.Config
	if c.TLSFolder != "" {
		pair, err := readPair(c.TLSFolder)
		if err != nil {
			return err
		}
		go pair.followFiles(ctx, p.opts.Log)
		secured = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.getCertificate}
	}
	listener, err := listenForBrowsers(ctx, c.Port, p.visitors.ByProxy)
	if err != nil {
		return fmt.Errorf("listen for browsers: %w", err)
	}
	server := &http.Server{
		Handler: p.requireTLS(p.pages), TLSConfig: secured,
		ReadHeaderTimeout: headerPatience, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: keepAlive,
		MaxHeaderBytes: largestHeader,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ErrorLog:       slog.NewLogLogger(p.opts.Log.Handler(), slog.LevelDebug), // errors of clients
	}
	ended := make(chan error, 1)
	go func() {
		if secured != nil {
			ended <- server.ServeTLS(listener, "", "")
			return
		}
		ended <- server.Serve(listener)
	}()
	p.setReady(nil)
	p.opts.Log.Info("serving pages", "address", listener.Addr().String(), "tls", secured != nil,
		"plainHTTP", c.Login.PlainHTTP)
	select {
	case err := <-ended:
		return fmt.Errorf("serve pages: %w", err)
	case <-p.watchPort(ctx, c):
	}
	cancel() // ends the streams
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer stop()
	if server.Shutdown(end) != nil {
		_ = server.Close() // the time limit is over
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve pages: %w", err)
	}
	return nil
}

// listenForBrowsers listens with TCP keepalive, as browsers may vanish. Exempt addresses may open any number of
// connections.
func listenForBrowsers(ctx context.Context, port int, exempt func(address string) bool) (net.Listener, error) {
	listener, err := keepalive.Minute.Listen(ctx, net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return &bounded{Listener: listener, exempt: exempt, open: map[netip.Addr]int{}}, nil
}

// watchPort returns a channel that is closed when the port or certificate folder in the configuration changes, or ctx
// is done.
func (p *Pages) watchPort(ctx context.Context, c Config) <-chan struct{} {
	differs := make(chan struct{})
	go func() {
		defer close(differs)
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.changed:
			}
			if now := p.config.Load(); now.Port != c.Port || now.TLSFolder != c.TLSFolder {
				return
			}
		}
	}()
	return differs
}

// requireTLS refuses unencrypted requests, unless the configuration allows them. Otherwise a password would be sent in
// the clear before anyone notices, and browsers wouldn't return the cookie. CONNECT requests of native viewers are
// exempt: the viewer file contains the same scheme that the browser used.
func (p *Pages) requireTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect && !p.config.Load().Login.PlainHTTP && !p.visitors.Encrypted(r) {
			http.Error(w, "These pages need https, or http://localhost through kubectl port-forward. "+
				"Behind a proxy with TLS that doesn't send X-Forwarded-Proto, trustedProxies needs its address; "+
				"plainHTTP allows http (docs/tasks/users.md).", http.StatusUpgradeRequired)
			return
		}
		next.ServeHTTP(w, r)
	})
}
