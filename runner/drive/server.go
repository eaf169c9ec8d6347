package drive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// serverTime is how long a web or NBD server has to answer. QEMU waits for 5 seconds.
const serverTime = 3 * time.Second

// tryServer returns an error if the server of a web address does not answer in time.
// Whatever else there is to say against it, QEMU says at once.
func tryServer(ctx context.Context, address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return nil // QEMU says what is wrong with it
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err == nil {
		return answer.Body.Close()
	}
	if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
		return fmt.Errorf("the server does not answer within %s", limit)
	}
	return nil
}
