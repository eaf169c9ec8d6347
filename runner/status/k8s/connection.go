package k8s

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"vmop/regular"
)

// Bounds of a connection to the API server.
const (
	handshakeTime = 10 * time.Second
	idleTime      = 90 * time.Second // until a connection that is not used is closed
)

// A connection sends requests to the API server with the pod's service account.
// The kubelet replaces the account's files while the pod runs, so both are read
// for each request; as long as the authorities stay the same, so does the
// connection. The zero value with a folder is ready.
type connection struct {
	account string // folder of the service account

	mu          sync.Mutex
	authorities []byte // that transport trusts, in PEM
	transport   *http.Transport
}

// largestCredential bounds the files of the service account, in bytes.
const largestCredential = 1 << 20

// send sends a request, of which it sets the header Authorization.
func (c *connection) send(request *http.Request) (*http.Response, error) {
	token, err := regular.ReadFile(filepath.Join(c.account, "token"), largestCredential)
	if err != nil {
		return nil, fmt.Errorf("read the token of the service account: %w", err)
	}
	transport, err := c.trusting()
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of the service account: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return transport.RoundTrip(request)
}

// trusting returns the transport that trusts the authorities of the account's
// file.
func (c *connection) trusting() (*http.Transport, error) {
	authorities, err := regular.ReadFile(filepath.Join(c.account, "ca.crt"), largestCredential)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil && bytes.Equal(authorities, c.authorities) {
		return c.transport, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("ca.crt has no certificate")
	}
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	c.authorities, c.transport = authorities, &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: handshakeTime,
		IdleConnTimeout:     idleTime,
		Protocols:           &protocols,
	}
	return c.transport, nil
}
