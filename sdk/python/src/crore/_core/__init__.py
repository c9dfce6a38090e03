"""
The core of the client: no socket, thread, timer, clock or random number of its own. The shell passes what happens
with the time in milliseconds, and takes `outputs` and `wake_at`. The rules are those of `spec/sdk.md`.
"""
