package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"vmop/nbdexport"
)

// Keys are what one side needs to find the other and to prove who it is. They are secret, and good for
// one migration.
type Keys struct {
	// Address is where the target listens, HOST:PORT.
	Address string `json:"address"`
	// Authority has signed the certificates of both sides. Its key is not kept.
	Authority string `json:"authority"`
	// Certificate and Key are this side's, PEM.
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// targetName is the target's in its certificate, whatever its address is.
const targetName = "migration-target"

// NewKeys makes the keys of a migration to a target that listens at an address.
func NewKeys(address string, now time.Time) (target, source Keys, err error) {
	authority, err := nbdexport.NewAuthority("migration", now)
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
	of := func(p nbdexport.Pair) Keys {
		return Keys{address, string(authority.Certificate), string(p.Certificate), string(p.Key)}
	}
	return of(server), of(client), nil
}

// config returns what TLS needs on either side.
func (k Keys) config() (*tls.Config, error) {
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
