package githost

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Hook is the part of a host's webhook that is used: the place of a change. Its content is not trusted, so a forged or
// repeated one leads to another look at that place, and nothing else.
type Hook struct {
	Repository string // owner/name in lower case, as Repository returns it; "": the host's test of the connection
	Number     int64  // the proposal; 0: unknown, such as of a push or a check
}

// maxHook is the size in bytes of the largest webhook that is read.
const maxHook = 2 << 20

// Repository returns owner/name of a host's repository, in lower case.
func Repository(host promotion.Host) (string, error) {
	at, err := parseRepository(host)
	return strings.ToLower(at.owner + "/" + at.name), err
}

// ReadHook verifies and reads a webhook of a kind of host with the key that it shares with the host: of Azure DevOps
// user:password, of all others the hook's secret. It compares in constant time. Errors: fault.Unauthorized,
// fault.Invalid, fault.TooLarge. An empty key accepts nothing.
func ReadHook(kind, key string, header http.Header, body []byte) (Hook, error) {
	if len(body) > maxHook {
		return Hook{}, fault.New(fault.TooLarge, "the webhook has more than %d bytes", maxHook)
	}
	if key == "" || !verified(kind, key, header, body) {
		return Hook{}, fault.New(fault.Unauthorized, "the webhook has no valid signature")
	}
	h, err := readHook(kind, header, body)
	if err != nil {
		return h, fault.New(fault.Invalid, "read the webhook: %w", err)
	}
	h.Repository = strings.ToLower(h.Repository)
	return h, nil
}

// signatureHeaders are the headers with the HMAC-SHA-256 of a body, by kind of host.
var signatureHeaders = map[string]string{GitHub: "X-Hub-Signature-256", Gitea: "X-Gitea-Signature", Forgejo: "X-Forgejo-Signature",
	BitbucketServer: "X-Hub-Signature", BitbucketCloud: "X-Hub-Signature"}

// verified reports whether a webhook has the proof of its host.
func verified(kind, key string, header http.Header, body []byte) bool {
	switch kind {
	case GitLab:
		return equal(header.Get("X-Gitlab-Token"), key)
	case AzureDevOps:
		request := http.Request{Header: header}
		user, password, ok := request.BasicAuth()
		return ok && equal(user+":"+password, key)
	}
	name, ok := signatureHeaders[kind]
	if !ok {
		return false
	}
	got, err := hex.DecodeString(strings.TrimPrefix(header.Get(name), "sha256="))
	if err != nil || len(got) != sha256.Size {
		return false
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}

// equal compares two secrets in constant time, whatever their lengths.
func equal(a, b string) bool {
	sumA, sumB := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(sumA[:], sumB[:]) == 1
}

// hookNames is the union of the fields of all hosts in which a repository or a proposal is named.
type hookNames struct {
	Number     int64 `json:"number"`
	Repository struct {
		FullName string `json:"full_name"`
		serverRepository
	} `json:"repository"`
	PullRequest struct {
		Number int64 `json:"number"`
	} `json:"pull_request"` // GitHub, Gitea
	CheckRun struct {
		Pulls []struct {
			Number int64 `json:"number"`
		} `json:"pull_requests"`
	} `json:"check_run"`
	CloudPull struct {
		ID int64 `json:"id"`
	} `json:"pullrequest"`
	ServerPull serverPull `json:"pullRequest"`
	Project    struct {
		Path string `json:"path_with_namespace"`
	} `json:"project"` // GitLab
	Object struct {
		IID int64 `json:"iid"`
	} `json:"object_attributes"`
	MergeRequest struct {
		IID int64 `json:"iid"`
	} `json:"merge_request"`
	Kind     string `json:"object_kind"`
	Resource struct {
		azureHook
		Pull azureHook `json:"pullRequest"`
	} `json:"resource"` // Azure DevOps
}

type azureHook struct {
	ID         int64 `json:"pullRequestId"`
	Repository struct {
		Name    string `json:"name"`
		Project struct {
			Name string `json:"name"`
		} `json:"project"`
	} `json:"repository"`
}

var errNoRepository = errors.New("it names no repository")

func readHook(kind string, header http.Header, body []byte) (Hook, error) {
	if isPing(kind, header) {
		return Hook{}, nil
	}
	var names hookNames
	if err := json.Unmarshal(body, &names); err != nil {
		return Hook{}, err
	}
	h := names.hook(kind)
	if h.Repository == "" || len(h.Repository) > 1024 || h.Number < 0 {
		return Hook{}, errNoRepository
	}
	return h, nil
}

// hook returns the names of repository and proposal in the place where a kind of host has them.
func (names hookNames) hook(kind string) (h Hook) {
	switch kind {
	case GitHub, Gitea, Forgejo:
		h = Hook{names.Repository.FullName, names.PullRequest.Number}
		if len(names.CheckRun.Pulls) == 1 {
			h.Number = names.CheckRun.Pulls[0].Number
		}
	case GitLab:
		h = Hook{names.Project.Path, names.MergeRequest.IID}
		if names.Kind == "merge_request" {
			h.Number = names.Object.IID
		}
	case BitbucketServer:
		at := names.Repository.serverRepository
		if there := names.ServerPull.To.Repository; there != nil {
			at = *there
		}
		if at.Slug != "" {
			h = Hook{at.Project.Key + "/" + at.Slug, names.ServerPull.ID}
		}
	case BitbucketCloud:
		h = Hook{names.Repository.FullName, names.CloudPull.ID}
	case AzureDevOps:
		at := names.Resource.azureHook
		if at.Repository.Name == "" {
			at = names.Resource.Pull
		}
		if at.Repository.Name != "" {
			h = Hook{at.Repository.Project.Name + "/" + at.Repository.Name, at.ID}
		}
	}
	return h
}

// isPing reports whether a webhook tests the connection.
func isPing(kind string, header http.Header) bool {
	return kind == GitHub && header.Get("X-Github-Event") == "ping" ||
		kind == BitbucketServer && header.Get("X-Event-Key") == "diagnostics:ping"
}
