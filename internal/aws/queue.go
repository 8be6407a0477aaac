package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// MaxMessage is the size in bytes above which SQS takes no message, and Step Functions no input.
const MaxMessage = 256 << 10

// Message is one delivery of a queue's message.
type Message struct {
	ID      string
	Body    string
	receipt string
}

// Send puts a message into a queue, named by its URL.
func (a *Account) Send(ctx context.Context, queue, body string) error {
	if _, err := a.queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &body}); err != nil {
		return fmt.Errorf("send to the queue %s: %w", queue, err)
	}
	return nil
}

// batch is the number of messages that SQS sends and accepts at once.
const batch = 10

// longPoll is the time for which SQS waits for a message before it answers, in seconds.
const longPoll = 20

// Receive waits for messages, at most twenty seconds; there may be none. A message that is not deleted comes again.
func (a *Account) Receive(ctx context.Context, queue string) ([]Message, error) {
	got, err := a.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: batch, WaitTimeSeconds: longPoll})
	if err != nil {
		return nil, fmt.Errorf("receive from the queue %s: %w", queue, err)
	}
	messages := make([]Message, len(got.Messages))
	for i, m := range got.Messages {
		messages[i] = Message{ID: sdk.ToString(m.MessageId), Body: sdk.ToString(m.Body), receipt: sdk.ToString(m.ReceiptHandle)}
	}
	return messages, nil
}

// Delete takes received messages, at most ten, out of their queue.
func (a *Account) Delete(ctx context.Context, queue string, messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	entries := make([]types.DeleteMessageBatchRequestEntry, len(messages))
	for i, m := range messages {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: sdk.String(fmt.Sprint(i)), ReceiptHandle: sdk.String(m.receipt)}
	}
	done, err := a.queues.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &queue, Entries: entries})
	if err != nil {
		return fmt.Errorf("delete from the queue %s: %w", queue, err)
	}
	if len(done.Failed) > 0 {
		return fmt.Errorf("delete from the queue %s: %d of %d refused: %s", queue, len(done.Failed), len(messages),
			sdk.ToString(done.Failed[0].Message))
	}
	return nil
}

// FindQueue looks whether a queue is there.
func (a *Account) FindQueue(ctx context.Context, queue string) error {
	_, err := a.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &queue,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn}})
	if err != nil {
		return fmt.Errorf("look for the queue %s: %w", queue, err)
	}
	return nil
}
