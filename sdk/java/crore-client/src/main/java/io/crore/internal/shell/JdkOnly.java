package io.crore.internal.shell;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** A class that is never loaded on Android: the check of Android's API leaves it out. */
@Retention(RetentionPolicy.CLASS)
@Target(ElementType.TYPE)
public @interface JdkOnly {}
