package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"k8s.io/client-go/rest"
)

// ErrLogForbidden means that the account may not read the logs of pods.
var ErrLogForbidden = errors.New("this account may not read the logs of pods")

// Log opens the output of a container of a pod so far; with follow, until the container ends. The caller closes it.
func (c *Cluster) Log(ctx context.Context, pod, container string, follow bool) (io.ReadCloser, error) {
	return c.log(ctx, pod, url.Values{"container": {container}, "follow": {strconv.FormatBool(follow)}})
}

// Bounds of LastLines.
const (
	lastLines = 100
	lastBytes = 7 << 10 // an event has room for some more
)

// LastLines returns the last lines that a container of a pod has printed.
func (c *Cluster) LastLines(ctx context.Context, pod, container string) (string, error) {
	log, err := c.log(ctx, pod, url.Values{"container": {container}, "tailLines": {strconv.Itoa(lastLines)}})
	if err != nil {
		return "", err
	}
	defer log.Close()
	var last []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := log.Read(buffer)
		last = append(last, buffer[:n]...)
		last = last[max(0, len(last)-lastBytes):]
		if errors.Is(err, io.EOF) {
			return string(last), nil
		}
		if err != nil {
			return "", fmt.Errorf("read the log of pod %s: %w", pod, err)
		}
	}
}

func (c *Cluster) log(ctx context.Context, pod string, query url.Values) (io.ReadCloser, error) {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	address, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	address = address.JoinPath("api/v1/namespaces", c.Namespace, "pods", pod, "log")
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	switch response.StatusCode {
	case http.StatusOK:
		return response.Body, nil
	case http.StatusForbidden, http.StatusUnauthorized:
		return nil, errors.Join(ErrLogForbidden, response.Body.Close())
	}
	return nil, errors.Join(fmt.Errorf("read the log of pod %s: %s", pod, response.Status), response.Body.Close())
}
