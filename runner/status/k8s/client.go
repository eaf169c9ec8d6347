package k8s

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"vmop/runner/status"
)

const (
	resourcePath = "/apis/vmoperator.jdrupes.org/v1/namespaces/%s/vms/%s/status"
	eventsPath   = "/apis/events.k8s.io/v1/namespaces/%s/events"

	// applyType is that of a server-side apply; JSON is YAML, too.
	applyType = "application/apply-patch+yaml"
	mergeType = "application/merge-patch+json"
	jsonType  = "application/json"

	// FieldManager is the runner's, for what it says in the status.
	FieldManager = "vm-runner"

	// answerTime bounds a request, and largestAnswer what is read of an answer.
	answerTime    = 10 * time.Second
	largestAnswer = 4 << 20
)

// client speaks to the API server.
type client struct {
	pod       *Pod
	namespace string
	server    connection
}

// An AnswerError is what the API server says when it refuses something
// (metav1.Status).
type AnswerError struct {
	// Code of HTTP.
	Code int `json:"code"`
	// Reason in one word: NotFound, Forbidden, Invalid …
	Reason string `json:"reason"`
	// Message for people; with the fields that are not as they should be.
	Message string `json:"message"`
	Details struct {
		RetryAfterSeconds int `json:"retryAfterSeconds"`
	} `json:"details"`
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the API server says %d %s: %s", e.Code, e.Reason, e.Message)
}

// code returns the API server's code in an error; 0 if it did not answer.
func code(err error) int {
	var answer *AnswerError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// object is what the runner wants to know of its resource.
type object struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Status struct {
		Conditions []status.Condition `json:"conditions"`
	} `json:"status"`
}

// apply makes the runner's part of the status what is said.
func (c *client) apply(ctx context.Context, body []byte) (object, error) {
	return c.applyAs(ctx, FieldManager, body)
}

func (c *client) applyAs(ctx context.Context, manager string, body []byte) (object, error) {
	return c.patch(ctx, applyType, url.Values{"fieldManager": {manager}, "force": {"true"}}, body)
}

// read returns the resource without a right to get it: by a patch of nothing.
func (c *client) read(ctx context.Context) (object, error) {
	return c.patch(ctx, mergeType, url.Values{"fieldManager": {FieldManager}}, []byte("{}"))
}

func (c *client) patch(ctx context.Context, kind string, query url.Values, body []byte) (o object, err error) {
	path := fmt.Sprintf(resourcePath, c.namespace, c.pod.VM) + "?" + query.Encode()
	return o, c.do(ctx, http.MethodPatch, path, kind, body, &o)
}

// do sends a request and decodes the answer.
func (c *client) do(ctx context.Context, method, path, kind string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.pod.server+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", jsonType)
	request.Header.Set("User-Agent", FieldManager)
	response, err := c.server.send(request)
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return refusal(response, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	return nil
}

// refusal reads what the API server, or what is between, has to say.
func refusal(response *http.Response, answer []byte) error {
	e := &AnswerError{}
	if json.Unmarshal(answer, e) != nil || e.Message == "" {
		e.Message = clean(string(answer), longestText)
	}
	e.Code = response.StatusCode
	if e.Reason == "" {
		e.Reason = strings.TrimPrefix(response.Status, strconv.Itoa(e.Code)+" ")
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil &&
		e.Details.RetryAfterSeconds == 0 {
		e.Details.RetryAfterSeconds = seconds
	}
	return e
}
