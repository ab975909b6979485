"""An Android device on loopback, for the real adb."""
