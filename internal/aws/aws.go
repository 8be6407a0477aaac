// Package aws reaches services of AWS: settings and credentials as Amazon's own tools find them, Step Functions and
// SQS, and the meaning of their errors.
package aws

import (
	"cmp"
	"context"
	"errors"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/waybill-dev/waybill/internal/fault"
)

// DefaultRegion is used if no region is named and none is needed: servers that replace Amazon's have none.
const DefaultRegion = "us-east-1"

// Config configures the account of the services, and their place. Empty fields are found as Amazon's own tools find
// them.
type Config struct {
	Region   string // such as eu-north-1
	Endpoint string // URL of a server that replaces Amazon's
	Profile  string // profile in the shared configuration and credentials files
}

// Load reads settings; it calls no service. A profile that is not there is fault.Invalid.
func Load(ctx context.Context, c Config) (sdk.Config, error) {
	options := []func(*config.LoadOptions) error{}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	settings, err := config.LoadDefaultConfig(ctx, options...)
	if _, none := errors.AsType[config.SharedConfigProfileNotExistError](err); none {
		return settings, fault.New(fault.Invalid, "profile %q not found in the files of AWS: %w", c.Profile, err).
			WithHint("put it into ~/.aws/config, or into the file that AWS_CONFIG_FILE names")
	}
	if err != nil {
		return settings, fault.New(fault.Unavailable, "read the settings of AWS: %w", err)
	}
	settings.Region = cmp.Or(c.Region, settings.Region)
	if c.Endpoint != "" {
		settings.Region = cmp.Or(settings.Region, DefaultRegion)
		settings.BaseEndpoint = sdk.String(c.Endpoint)
	}
	return settings, nil
}

// Account is Step Functions and SQS of one account in one region. Calls are made
// once: the caller knows when to try again.
type Account struct {
	machines *sfn.Client
	queues   *sqs.Client
}

// Open makes the clients; it calls no service. Settings without a region are fault.Invalid.
func Open(ctx context.Context, c Config) (*Account, error) {
	settings, err := Load(ctx, c)
	if err != nil {
		return nil, err
	}
	if settings.Region == "" {
		return nil, fault.New(fault.Invalid, "no region is named").WithHint("name it: cirrusConf.region, or AWS_REGION")
	}
	settings.Retryer = func() sdk.Retryer { return sdk.NopRetryer{} }
	return &Account{machines: sfn.NewFromConfig(settings), queues: sqs.NewFromConfig(settings)}, nil
}
