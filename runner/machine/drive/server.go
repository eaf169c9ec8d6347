package drive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"vmop/internal/outbound"
)

// serverTime is how long a web or NBD server may take to answer. QEMU waits for 5 seconds.
const serverTime = 3 * time.Second

// CheckServer returns an error if a web address is, resolves to, or redirects to an address that QEMU must not
// reach. A server that does not answer in time is not an error; QEMU reports it.
func CheckServer(ctx context.Context, reach outbound.Rule, address string) error {
	err := tryServer(ctx, reach, address, serverTime)
	if refused := (*outbound.RefusedError)(nil); errors.As(err, &refused) {
		return refused
	}
	return nil
}

// tryServer returns an error if the server of a web address does not answer in time. It also returns an error if
// the server or a redirection target has an address that QEMU must not reach. QEMU itself reports all other
// problems immediately.
func tryServer(ctx context.Context, reach outbound.Rule, address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return nil // QEMU reports the error
	}
	plain := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := http.Client{Transport: reach.Transport(plain)}
	answer, err := client.Do(request)
	if err == nil {
		return answer.Body.Close()
	}
	if refused := (*outbound.RefusedError)(nil); errors.As(err, &refused) {
		return refused
	}
	if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
		return fmt.Errorf("the server does not answer within %s", limit)
	}
	return nil
}
