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
	// patience is how long a browser may take for a request, and for accepting an answer; streams
	// have times of their own.
	patience = time.Minute
	// headerPatience is how long it may take for the header.
	headerPatience = 10 * time.Second
	// keepAlive is how long a connection stays without a request.
	keepAlive = 2 * time.Minute
	// endPatience is how long requests may take after the end was requested.
	endPatience = 5 * time.Second
	// largestHeader of a request, in bytes.
	largestHeader = 64 << 10
	// retryInterval is the time between two attempts to listen.
	retryInterval = 2 * time.Second
)

// serveAgain serves as the configuration says, again and again, until ctx is done.
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

// serveAs serves until the configuration has another port or certificate, or ctx is done.
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
		ErrorLog:       slog.NewLogLogger(p.opts.Log.Handler(), slog.LevelDebug), // what clients do wrong
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
		_ = server.Close() // what is left has had its time
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve pages: %w", err)
	}
	return nil
}

// listenForBrowsers listens for browsers, which may vanish. Those at an exempt address may have any number of
// connections.
func listenForBrowsers(ctx context.Context, port int, exempt func(address string) bool) (net.Listener, error) {
	listener, err := keepalive.Minute.Listen(ctx, net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return &bounded{Listener: listener, exempt: exempt, open: map[netip.Addr]int{}}, nil
}

// watchPort returns a channel that is closed when the configuration has another port or
// certificate, or ctx is done.
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

// requireTLS refuses requests that travel in the clear, unless the configuration allows that: a
// password would be sent to everyone on the way before anything else can be noticed, and browsers
// wouldn't send the cookie back. A native viewer connects as the browser did that has made its file.
func (p *Pages) requireTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect && !p.config.Load().Login.PlainHTTP && !p.visitors.Encrypted(r) {
			http.Error(w, "These pages are for https, or for http://localhost by kubectl port-forward. "+
				"Behind a proxy with TLS that doesn't send X-Forwarded-Proto, trustedProxies needs its address; "+
				"plainHTTP allows http (docs/tasks/users.md).", http.StatusUpgradeRequired)
			return
		}
		next.ServeHTTP(w, r)
	})
}
