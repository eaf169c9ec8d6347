package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"vmop/manager/vm/objects"
	"vmop/runner/config"
)

// secretKey is the key in the Secret.
const secretKey = "authorities.pem"

// refreshTime is how often the Secret is read again. retryTime is the delay after an error.
const (
	refreshTime = time.Hour
	retryTime   = 30 * time.Second
)

// Keys contains the keys of the manager: the keys of its authorities, and the key of this process. Its methods are safe
// for concurrent use.
type Keys struct {
	// Connect opens TCP connections. nil uses a dialer from package keepalive.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)

	secrets    client.SecretInterface
	configMaps client.ConfigMapInterface
	log        *slog.Logger
	now        func() time.Time

	mu   sync.Mutex
	all  authorities
	leaf *tls.Certificate
}

// NewKeys returns the keys of the manager of one namespace. It reads nothing yet.
func NewKeys(secrets client.SecretInterface, configMaps client.ConfigMapInterface, log *slog.Logger) *Keys {
	return &Keys{secrets: secrets, configMaps: configMaps, log: log, now: time.Now}
}

// Run keeps the keys current until ctx is done, and returns nil.
func (k *Keys) Run(ctx context.Context) error {
	for {
		wait := refreshTime
		if err := k.Refresh(ctx); err != nil && ctx.Err() == nil {
			k.log.Error("the keys that identify the manager to runners", "err", err)
			wait = retryTime
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// Refresh reads or creates the Secret, renews keys that are due, and publishes the certificates.
func (k *Keys) Refresh(ctx context.Context) error {
	all, err := k.syncSecret(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.all = all
	k.mu.Unlock()
	return k.publishCertificates(ctx, all.publicPEM())
}

// attempts limits retries of a write after conflicts with other managers.
const attempts = 5

// syncSecret updates the authorities in the Secret, and returns them.
func (k *Keys) syncSecret(ctx context.Context) (authorities, error) {
	var lost error
	for range attempts {
		secret, err := k.secrets.Get(ctx, objects.ManagerCA, metav1.GetOptions{})
		exists := err == nil
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read secret %s: %w", objects.ManagerCA, err)
		}
		if !exists {
			secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: objects.ManagerCA}}
		}
		have, err := parseSecret(secret.Data[secretKey])
		if err != nil {
			return nil, fmt.Errorf("secret %s, %s: %w; to create new keys, delete the Secret",
				objects.ManagerCA, secretKey, err)
		}
		all, changed, err := have.advanceTo(k.now())
		if err != nil || !changed {
			return all, err
		}
		text, err := all.secretPEM()
		if err != nil {
			return nil, err
		}
		secret.Data = maps.Clone(secret.Data)
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[secretKey] = text
		if exists { // the version protects another manager's write
			_, err = k.secrets.Update(ctx, secret, metav1.UpdateOptions{})
		} else {
			_, err = k.secrets.Create(ctx, secret, metav1.CreateOptions{})
		}
		switch {
		case err == nil:
			k.log.Info("created a key for the connections with runners", "secret", objects.ManagerCA)
			return all, nil
		case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
			lost = err // another manager was faster: use its version
		default:
			return nil, fmt.Errorf("write secret %s: %w", objects.ManagerCA, err)
		}
	}
	return nil, fmt.Errorf("write secret %s: %w", objects.ManagerCA, lost)
}

// publishCertificates writes the certificates to the ConfigMap that runners read.
func (k *Keys) publishCertificates(ctx context.Context, certificates []byte) error {
	have, err := k.configMaps.Get(ctx, objects.ManagerCA, metav1.GetOptions{})
	if err == nil && have.Data[config.AuthoritiesFile] == string(certificates) {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read ConfigMap %s: %w", objects.ManagerCA, err)
	}
	configuration := applycorev1.ConfigMap(objects.ManagerCA, "").
		WithData(map[string]string{config.AuthoritiesFile: string(certificates)})
	configuration.Namespace = nil // use the client's namespace
	_, err = k.configMaps.Apply(ctx, configuration, metav1.ApplyOptions{FieldManager: objects.ManagerName, Force: true})
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", objects.ManagerCA, err)
	}
	return nil
}

// errNoKeys means that Refresh has not succeeded yet.
var errNoKeys = errors.New("the manager has no keys for connections with runners yet; its log shows the reason")

// clientCertificate returns the certificate of this process.
func (k *Keys) clientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if k.leaf != nil && k.leaf.Leaf.NotAfter.Sub(now) > certificateLife/2 {
		return k.leaf, nil
	}
	if len(k.all) == 0 {
		return nil, errNoKeys
	}
	leaf, err := k.all.issueCertificate(now)
	if err != nil {
		return nil, err
	}
	k.leaf = leaf
	return leaf, nil
}
