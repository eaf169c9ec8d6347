package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"vmop/internal/mtls"
)

// ManagerURI is the name in the certificates of managers, a URI (RFC 5280, 4.2.1.6).
const ManagerURI = "vmop://manager"

// Options configure a Listener. Authorities and Log are required.
type Options struct {
	// Authorities is the path of the certificates (PEM) of the manager's authorities. While the file is missing,
	// all connections are refused.
	Authorities string
	// Port to listen on, at every address; 0 means any free port.
	Port int
	// Certificate of the server, with its key; nil creates a new certificate.
	Certificate *tls.Certificate
	// Log receives refused connections, with the reason.
	Log *slog.Logger
}

// A Listener accepts connections of the manager.
type Listener struct {
	*mtls.Listener

	key string
}

// Listen begins to listen, until Close.
func Listen(ctx context.Context, opts Options) (*Listener, error) {
	if opts.Certificate == nil {
		made, err := newIdentity(time.Now())
		if err != nil {
			return nil, err
		}
		opts.Certificate = &made
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*opts.Certificate},
		NextProtos:             []string{"http/1.1"}, // streams take over connections, which HTTP/2 doesn't support
		SessionTicketsDisabled: true,                 // the current authorities verify each connection
		ClientAuth:             tls.RequireAndVerifyClientCert,
		VerifyConnection:       isManager,
	}
	present := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return withAuthorities(present, opts.Authorities)
	}
	l, err := mtls.Listen(ctx, mtls.Options{
		Address: net.JoinHostPort("", strconv.Itoa(opts.Port)), TLS: config, Log: opts.Log,
		Refusal: "a connection that is not the manager's was refused",
	})
	if err != nil {
		return nil, fmt.Errorf("listen for the manager: %w", err)
	}
	return &Listener{l, KeyHash(opts.Certificate.Leaf)}, nil
}

// withAuthorities returns the configuration with the current authorities from a file.
func withAuthorities(config *tls.Config, file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the manager's authorities: %w", err)
	}
	config = config.Clone()
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return config, nil
}

// isManager returns an error unless a verified certificate belongs to a manager.
func isManager(state tls.ConnectionState) error {
	for _, uri := range state.PeerCertificates[0].URIs {
		if uri.String() == ManagerURI {
			return nil
		}
	}
	return errors.New("the certificate is not of a manager: its names lack " + ManagerURI)
}

// Port returns the TCP port.
func (l *Listener) Port() int { return l.Addr().(*net.TCPAddr).Port }

// Key returns the hash of the runner's public key, computed by KeyHash.
func (l *Listener) Key() string { return l.key }
