"""The frames of the native protocol (`spec/protocol.md`): the client's encoded, the server's decoded."""
