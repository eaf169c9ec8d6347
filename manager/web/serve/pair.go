package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"vmop/internal/filewatch"
	"vmop/internal/readfile"
)

// A pair is a certificate and its key, from two files that may be replaced.
type pair struct {
	certificate, key string // paths
	current          atomic.Pointer[tls.Certificate]
}

// largestFile is the maximum size of a certificate or key file in bytes.
const largestFile = 1 << 20

// readPair reads the files in a folder, with the names that a Secret uses.
func readPair(folder string) (*pair, error) {
	p := &pair{certificate: filepath.Join(folder, "tls.crt"), key: filepath.Join(folder, "tls.key")}
	return p, p.readFiles()
}

// readFiles reads the files and uses them from now on, unless there is an error.
func (p *pair) readFiles() error {
	certificate, err := readfile.ReadFile(p.certificate, largestFile)
	key, keyErr := readfile.ReadFile(p.key, largestFile)
	if err := errors.Join(err, keyErr); err != nil {
		return fmt.Errorf("read the certificate of the pages: %w", err)
	}
	made, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("read the certificate of the pages from %s: %w", p.certificate, err)
	}
	p.current.Store(&made)
	return nil
}

// getCertificate is the function for tls.Config.
func (p *pair) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.current.Load(), nil
}

// followFiles reads the files after each change, until ctx is done.
func (p *pair) followFiles(ctx context.Context, log *slog.Logger) {
	for range filewatch.Files(ctx, log, p.certificate, p.key) {
		if err := p.readFiles(); err != nil {
			log.Error("the new certificate of the pages is not used, the previous one stays", "err", err)
			continue
		}
		log.Info("using the certificate of the pages", "expires", p.current.Load().Leaf.NotAfter)
	}
}
