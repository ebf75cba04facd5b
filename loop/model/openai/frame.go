package openai

import (
	"encoding/json"

	"dshsh/loop/model"
)

// The reply, as it comes over the wire. A frame of the stream and a whole reply, from a
// service that does not stream, have the same shape but for delta and message.
type (
	frame struct {
		Object  string          `json:"object"`
		Choices []choice        `json:"choices"`
		Usage   *usage          `json:"usage"`
		Error   json.RawMessage `json:"error"`
	}
	choice struct {
		Index        int             `json:"index"`
		Delta        delta           `json:"delta"`
		Message      delta           `json:"message"`
		FinishReason string          `json:"finish_reason"`
		Usage        *usage          `json:"usage"` // Moonshot puts it here
		Error        json.RawMessage `json:"error"` // OpenRouter, with finish_reason error
	}
	delta struct {
		Content          content    `json:"content"`
		ReasoningContent string     `json:"reasoning_content"` // DeepSeek, Qwen, llama.cpp
		Reasoning        text       `json:"reasoning"`         // Ollama, OpenRouter, vLLM
		Refusal          string     `json:"refusal"`
		ToolCalls        []fragment `json:"tool_calls"`
	}
	fragment struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments text   `json:"arguments"`
		} `json:"function"`
	}
	usage struct {
		PromptTokens        int64 `json:"prompt_tokens"`
		CompletionTokens    int64 `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionTokensDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
		PromptCacheHitTokens  int64 `json:"prompt_cache_hit_tokens"` // DeepSeek, as the next
		PromptCacheMissTokens int64 `json:"prompt_cache_miss_tokens"`
	}
)

// tokens maps usage. InputTokens counts the whole prompt, what came from a cache
// included.
func (u *usage) tokens() model.Usage {
	return model.Usage{
		InputTokens:     max(u.PromptTokens, u.PromptCacheHitTokens+u.PromptCacheMissTokens),
		OutputTokens:    u.CompletionTokens,
		CacheReadTokens: max(u.PromptTokensDetails.CachedTokens, u.PromptCacheHitTokens),
		ReasoningTokens: u.CompletionTokensDetails.ReasoningTokens,
	}
}

// text is a string; any other JSON value is taken as its own text, null as none. Some
// services write arguments as an object.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	switch {
	case string(raw) == "null":
		return nil
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(t))
	}
	*t = text(model.Scrub(string(raw)))
	return nil
}

// content is a string, or, as Mistral has it, a list of parts, thinking among them.
type content struct{ text, reasoning string }

func (c *content) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, &c.text)
	}
	var parts []struct {
		Type     string
		Text     string
		Thinking []struct{ Text string }
	}
	if raw[0] != '[' {
		return nil // null, or nothing that could be shown
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		c.text += p.Text
		for _, t := range p.Thinking {
			c.reasoning += t.Text
		}
	}
	return nil
}
