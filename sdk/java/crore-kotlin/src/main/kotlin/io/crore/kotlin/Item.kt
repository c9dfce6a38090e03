package io.crore.kotlin

/** What the collector of a subscription gets, in the log's order. */
public sealed interface Item {
    /** One message. */
    public data class Message(public val message: io.crore.Message) : Item

    /** Messages are missing. */
    public data class Gap(public val gap: io.crore.Gap) : Item

    /** Messages were left out on purpose. */
    public data class Skipped(public val skipped: io.crore.Skipped) : Item

    /** Everything up to a position is settled. */
    public data class CaughtUp(public val caughtUp: io.crore.CaughtUp) : Item
}

internal fun io.crore.Item.sealed(): Item =
    when (this) {
        is io.crore.Message -> Item.Message(this)
        is io.crore.Gap -> Item.Gap(this)
        is io.crore.Skipped -> Item.Skipped(this)
        is io.crore.CaughtUp -> Item.CaughtUp(this)
        else -> error("an unknown item: $this")
    }
