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

	// applyType is the media type of a server-side apply; JSON is valid YAML.
	applyType = "application/apply-patch+yaml"
	mergeType = "application/merge-patch+json"
	jsonType  = "application/json"

	// fieldManager is the runner's name as the owner of status fields.
	fieldManager = "vm-runner"

	// answerTime bounds a request, and largestAnswer the bytes read of an answer.
	answerTime    = 10 * time.Second
	largestAnswer = 4 << 20
)

// client sends requests to the API server.
type client struct {
	pod       *Pod
	namespace string
	server    connection
}

// An AnswerError is the API server's answer when it refuses a request (metav1.Status).
type AnswerError struct {
	// Code is the HTTP status.
	Code int `json:"code"`
	// Reason is one word: NotFound, Forbidden, Invalid …
	Reason string `json:"reason"`
	// Message is for people; it names the invalid fields.
	Message string `json:"message"`
	Details struct {
		RetryAfterSeconds int `json:"retryAfterSeconds"`
	} `json:"details"`
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("the API server answers %d %s: %s", e.Code, e.Reason, e.Message)
}

// statusCode returns the API server's HTTP status in an error; 0 if it did not answer.
func statusCode(err error) int {
	var answer *AnswerError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// object contains the fields of the resource that the runner needs.
type object struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Status struct {
		Conditions []status.Condition `json:"conditions"`
	} `json:"status"`
}

// applyStatus applies body as the runner's part of the status.
func (c *client) applyStatus(ctx context.Context, body []byte) (object, error) {
	return c.applyAs(ctx, fieldManager, body)
}

func (c *client) applyAs(ctx context.Context, manager string, body []byte) (object, error) {
	return c.patchResource(ctx, applyType, url.Values{"fieldManager": {manager}, "force": {"true"}}, body)
}

// readByPatch returns the resource without the right to get it: it sends an empty patch.
func (c *client) readByPatch(ctx context.Context) (object, error) {
	return c.patchResource(ctx, mergeType, url.Values{"fieldManager": {fieldManager}}, []byte("{}"))
}

func (c *client) patchResource(ctx context.Context, kind string, query url.Values, body []byte) (o object, err error) {
	path := fmt.Sprintf(resourcePath, c.namespace, c.pod.VM) + "?" + query.Encode()
	return o, c.doRequest(ctx, http.MethodPatch, path, kind, body, &o)
}

// doRequest sends a request and decodes the answer.
func (c *client) doRequest(ctx context.Context, method, path, kind string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.pod.server+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", jsonType)
	request.Header.Set("User-Agent", fieldManager)
	response, err := c.server.sendRequest(request)
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return refusalIn(response, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	return nil
}

// refusalIn decodes the error of the API server, or of a proxy in between.
func refusalIn(response *http.Response, answer []byte) error {
	e := &AnswerError{}
	if json.Unmarshal(answer, e) != nil || e.Message == "" {
		e.Message = cleanText(string(answer), longestText)
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
