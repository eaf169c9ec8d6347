package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"vmop/diskimage/nbd"
)

// Keys are what one side needs to find the other side and to prove its own identity. They are secret, and valid
// for one migration.
type Keys struct {
	// Address is the target's listen address, HOST:PORT.
	Address string `json:"address"`
	// Authority is the certificate of the authority that signed both sides' certificates. Its key is not kept.
	Authority string `json:"authority"`
	// Certificate and Key are this side's, in PEM.
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// targetName is the target's name in its certificate, independent of its address.
const targetName = "migration-target"

// NewKeys creates the keys of a migration to a target that listens at address.
func NewKeys(address string, now time.Time) (target, source Keys, err error) {
	authority, err := nbd.NewAuthority("migration", now)
	if err != nil {
		return target, source, err
	}
	server, err := authority.Server([]string{targetName}, nil, now)
	if err != nil {
		return target, source, err
	}
	client, err := authority.Client(now)
	if err != nil {
		return target, source, err
	}
	of := func(p nbd.Pair) Keys {
		return Keys{address, string(authority.Certificate), string(p.Certificate), string(p.Key)}
	}
	return of(server), of(client), nil
}

// tlsConfig returns the TLS configuration, which works for both sides.
func (k Keys) tlsConfig() (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(k.Certificate), []byte(k.Key))
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the migration: %w", err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM([]byte(k.Authority)) {
		return nil, errors.New("read the authority of the migration: there is no certificate (PEM)")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true,
		RootCAs: authority, ServerName: targetName,
		ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
