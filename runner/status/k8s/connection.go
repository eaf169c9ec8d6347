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

	"vmop/internal/readfile"
)

// Limits of a connection to the API server.
const (
	handshakeTime = 10 * time.Second
	idleTime      = 90 * time.Second // until an unused connection is closed
)

// A connection sends requests to the API server with the pod's service account. The kubelet replaces the account's
// files while the pod is running, so sendRequest reads them for each request. The connection is reused as long as the
// authorities stay the same. The zero value with a folder is ready for use.
type connection struct {
	account string // folder of the service account

	mu          sync.Mutex
	authorities []byte // trusted by transport, in PEM
	transport   *http.Transport
}

// largestCredential bounds the files of the service account, in bytes.
const largestCredential = 1 << 20

// sendRequest sends a request. It sets the header Authorization.
func (c *connection) sendRequest(request *http.Request) (*http.Response, error) {
	token, err := readfile.ReadFile(filepath.Join(c.account, "token"), largestCredential)
	if err != nil {
		return nil, fmt.Errorf("read the token of the service account: %w", err)
	}
	transport, err := c.newTransport()
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of the service account: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return transport.RoundTrip(request)
}

// newTransport returns a transport that trusts the authorities in the account's file.
func (c *connection) newTransport() (*http.Transport, error) {
	authorities, err := readfile.ReadFile(filepath.Join(c.account, "ca.crt"), largestCredential)
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
