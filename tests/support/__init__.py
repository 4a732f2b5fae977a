"""What tests share: tiny models, warm ranks, servers, browsers. Tests find it because their folder is on the path."""
