package images

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"vmop/internal/outbound"
	"vmop/vmspec"
)

// Limits of a publisher's file with checksums.
const (
	longestChecksums = 4 << 20 // bytes
	checksumsTime    = time.Minute
	mostRedirects    = 10
)

// resolveKnown returns where a known image is, and its checksum from the publisher; "" without a checksum.
func (k *Known) resolveKnown(ctx context.Context) (from, checksum string, err error) {
	file, err := k.checksumsURL()
	if err != nil || file == "" {
		return k.URL, k.Checksum, err
	}
	text, err := fetchText(ctx, file)
	if err != nil {
		return "", "", fmt.Errorf("fetch the checksum of %s: %w", k.Name, err)
	}
	checksum, err = findChecksum(text, imageFile(k.URL))
	if err != nil {
		return "", "", fmt.Errorf("find the checksum of %s: %s %w", k.Name, file, err)
	}
	return k.URL, checksum, nil
}

// imageFile returns the name of the file that a URL leads to.
func imageFile(address string) string {
	if u, err := url.Parse(address); err == nil {
		return path.Base(u.Path)
	}
	return path.Base(address)
}

// fetchText fetches a short text. It refuses redirects from https to other schemes.
func fetchText(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checksumsTime, fmt.Errorf("no answer within %s", checksumsTime))
	defer cancel()
	bare, user, password := vmspec.Credentials(address)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, bare, http.NoBody)
	if err != nil {
		return "", err
	}
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	plain := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	rt := outbound.NamedBy(address).Transport(plain)
	client := &http.Client{Transport: rt, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		switch {
		case len(before) >= mostRedirects:
			return errors.New("it leads from one address to another without end")
		case before[0].URL.Scheme == "https" && next.URL.Scheme != "https":
			return fmt.Errorf("it leads from https to %s", next.URL.Scheme)
		}
		return nil
	}}
	answer, err := client.Do(request)
	if err != nil {
		return "", errors.Join(context.Cause(ctx), err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: the server answers %s", bare, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestChecksums+1))
	if err == nil && len(text) > longestChecksums {
		err = fmt.Errorf("%s has more than %d bytes", bare, longestChecksums)
	}
	return string(text), err
}

// findChecksum returns the checksum of a file from a text with checksums. The text may be signed with PGP, or
// contain only one checksum.
func findChecksum(text, file string) (string, error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		digits, name := checksumLine(strings.TrimSpace(lines.Text()))
		if digits != "" && path.Base(name) == file {
			return checksumOf(digits)
		}
	}
	if only := strings.TrimSpace(text); !strings.ContainsAny(only, " \t\n") {
		if sum, err := checksumOf(only); err == nil {
			return sum, nil
		}
	}
	return "", fmt.Errorf("has none of %s", file)
}

// checksumLine parses a line in the format of GNU programs, "HEX  NAME" or "HEX *NAME", or of BSD programs,
// "SHA256 (NAME) = HEX".
func checksumLine(line string) (digits, name string) {
	if before, after, ok := strings.Cut(line, ") = "); ok {
		if _, name, ok := strings.Cut(before, " ("); ok {
			return after, name
		}
	}
	digits, name, _ = strings.Cut(line, " ")
	return digits, strings.TrimPrefix(strings.TrimLeft(name, " "), "*")
}

// checksumOf returns a checksum with its algorithm, which follows from its length.
func checksumOf(digits string) (string, error) {
	const sha256, sha512 = 32, 64
	sum, err := hex.DecodeString(digits)
	switch {
	case err == nil && len(sum) == sha256:
		return "sha256:" + strings.ToLower(digits), nil
	case err == nil && len(sum) == sha512:
		return "sha512:" + strings.ToLower(digits), nil
	}
	return "", errors.New("has a checksum of a kind that is not known; sha256 and sha512 are")
}
