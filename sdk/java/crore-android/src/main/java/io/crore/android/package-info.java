/** Crore's client on Android: the same client, over OkHttp. */
package io.crore.android;
