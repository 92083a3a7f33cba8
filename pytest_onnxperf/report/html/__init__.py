"""Results as one page that opens offline: `page` is the way in, and every module here is text out of `Results`."""
