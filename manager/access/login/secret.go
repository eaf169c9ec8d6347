package login

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// SecretName is the Secret that the managers share. It contains the key of the sessions and the list of revoked
// sessions. Deleting it logs all users out.
const SecretName = "vm-operator-sessions"

const (
	keyEntry      = "key"
	revokedPrefix = "revoked-"
	// watchTime is how long a watch lasts. After that, the whole Secret is read again.
	watchTime = 10 * time.Minute
	// rewatch is the minimum pause between two watches.
	rewatch = 2 * time.Second
)

// Secret implements Shared with a Secret in the managers' namespace. Its client needs get, list, watch, create
// and patch for the Secret.
type Secret struct {
	Client client.SecretInterface
	Log    *slog.Logger
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
}

// Key returns the key of the sessions. The first manager creates the key.
func (s Secret) Key(ctx context.Context) ([]byte, error) {
	secret, err := s.Client.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: SecretName, Labels: map[string]string{"app.kubernetes.io/name": "vm-operator"},
			},
			Data: map[string][]byte{keyEntry: newKey()},
		}
		secret, err = s.Client.Create(ctx, made, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another manager was first
			secret, err = s.Client.Get(ctx, SecretName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the sessions: %w", err)
	}
	if key := secret.Data[keyEntry]; len(key) != KeySize {
		return nil, fmt.Errorf("the key in the Secret %s has %d bytes, but must have %d: delete the Secret", SecretName, len(key),
			KeySize)
	}
	return secret.Data[keyEntry], nil
}

// Revoke implements Shared. It also removes expired entries.
func (s Secret) Revoke(ctx context.Context, key string, until time.Time) error {
	secret, err := s.Client.Get(ctx, SecretName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("publish a log-out: %w", err)
	}
	change := map[string]any{revokedPrefix + key: []byte(strconv.FormatInt(until.Unix(), 10))}
	for name, data := range secret.Data {
		if at, ok := expiryOf(name, data); ok && !at.After(s.Now()) {
			change[name] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"data": change})
	if err == nil {
		_, err = s.Client.Patch(ctx, SecretName, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish a log-out: %w", err)
	}
	return nil
}

// expiryOf returns the time when the revoked session of an entry would have expired.
func expiryOf(name string, data []byte) (time.Time, bool) {
	seconds, err := strconv.ParseInt(string(data), 10, 64)
	return time.Unix(seconds, 0), strings.HasPrefix(name, revokedPrefix) && err == nil
}

// Follow implements Shared.
func (s Secret) Follow(ctx context.Context, publish func(key []byte, revoked map[string]time.Time)) error {
	for ctx.Err() == nil {
		key, err := s.Key(ctx) // creates the Secret if it was deleted
		if err == nil {
			err = s.watchSecret(ctx, key, publish)
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("log-outs at other managers are not followed, trying again", "err", err)
		}
		_ = s.Sleep(ctx, rewatch) // the loop checks ctx
	}
	return ctx.Err()
}

// watchSecret publishes the Secret now and after each change, until watchTime has passed.
func (s Secret) watchSecret(ctx context.Context, key []byte, publish func([]byte, map[string]time.Time)) error {
	one := fields.OneTermEqualSelector("metadata.name", SecretName).String()
	ctx, cancel := context.WithTimeout(ctx, watchTime)
	defer cancel()
	changes, err := s.Client.Watch(ctx, metav1.ListOptions{FieldSelector: one})
	if err != nil {
		return fmt.Errorf("watch the secret %s: %w", SecretName, err)
	}
	defer changes.Stop()
	var before map[string][]byte
	for change := range changes.ResultChan() {
		secret, ok := change.Object.(*corev1.Secret)
		switch {
		case change.Type == watch.Deleted:
			return nil
		case !ok:
			return fmt.Errorf("watch the secret %s: %w", SecretName, apierrors.FromObject(change.Object))
		case maps.EqualFunc(before, secret.Data, func(a, b []byte) bool { return string(a) == string(b) }):
			continue
		}
		before = secret.Data
		if stored := secret.Data[keyEntry]; len(stored) == KeySize {
			key = stored
		}
		revoked := map[string]time.Time{}
		for name, data := range secret.Data {
			if at, ok := expiryOf(name, data); ok {
				revoked[strings.TrimPrefix(name, revokedPrefix)] = at
			}
		}
		publish(key, revoked)
	}
	return nil
}
