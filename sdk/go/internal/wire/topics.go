package wire

import "strings"

// TopicBytesMax is the length of the longest topic or filter.
const TopicBytesMax = 255

// IsWild reports whether a name is a filter with wildcards.
func IsWild(name string) bool {
	for len(name) > 0 {
		var level string
		level, name, _ = strings.Cut(name, "/")
		if level == "+" || level == "#" {
			return true
		}
	}
	return false
}

// Matches reports whether a filter matches a topic: + matches any one level, a last # the parent
// and everything below, and a filter that begins with a wildcard no topic that begins with $.
func Matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && (filter[:1] == "+" || filter[:1] == "#") {
		return false
	}
	for {
		wanted, moreFilter, filterGoesOn := strings.Cut(filter, "/")
		if wanted == "#" {
			return true
		}
		level, moreTopic, topicGoesOn := strings.Cut(topic, "/")
		if wanted != "+" && wanted != level {
			return false
		}
		if !filterGoesOn || !topicGoesOn {
			return filterGoesOn == topicGoesOn || filterGoesOn && moreFilter == "#"
		}
		filter, topic = moreFilter, moreTopic
	}
}
